//! How the server listens, and to whom.

use stile_server::{Limits, ServeOptions, TlsFiles};

use super::WiringError;
use crate::config::{Config, ServerLimits, ServerTls};
use crate::host;

/// Refuses a private key that others can read, and files that do not go together.
pub(super) fn options(config: &Config) -> Result<ServeOptions, WiringError> {
    let server = &config.server;
    Ok(ServeOptions {
        hosts: server.hosts.clone(),
        advertised: config.cluster.advertise_url.as_ref().map(|url| url.as_str().to_owned()),
        tls: tls(&server.tls)?,
        limits: limits(&server.limits),
    })
}

fn tls(tls: &ServerTls) -> Result<Option<TlsFiles>, WiringError> {
    let (Some(cert), Some(key)) = (&tls.cert, &tls.key) else { return Ok(None) };
    let refused = |why: String| WiringError(format!("server.tls.key: {why}"));
    let found = std::fs::metadata(key)
        .map_err(|error| refused(format!("{} cannot be read: {error}", key.display())))?;
    host::check_private(key, &found).map_err(refused)?;
    let (cert, key, client_ca) = (cert.clone(), key.clone(), tls.client_ca.clone());
    let files = TlsFiles { cert, key, client_ca };
    files.check().map_err(|why| WiringError(why.to_string()))?;
    Ok(Some(files))
}

fn limits(limits: &ServerLimits) -> Limits {
    Limits {
        headers: limits.headers_timeout.get(),
        body: limits.body_timeout.get(),
        idle: limits.idle_timeout.get(),
        connections: limits.connections,
        connections_per_address: limits.connections_per_address,
        streams_per_key: limits.streams_per_key,
        calls_per_key: limits.calls_per_key,
        calls_per_address: limits.calls_per_address,
        wrong_keys_per_address: limits.wrong_keys_per_address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_configuration_has_the_limits_of_an_empty_one() {
        assert_eq!(limits(&ServerLimits::default()), Limits::default());
    }
}

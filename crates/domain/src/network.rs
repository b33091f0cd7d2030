//! From which addresses an API key may be used.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

/// So many networks a key may name.
const MOST_NETWORKS: usize = 32;

/// The networks that a key may be used from: at least one. They never change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Networks(BTreeSet<IpNet>);

/// A list of networks that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworksError {
    /// Nobody could use the key.
    #[error("must name at least one network, or be left out for anywhere")]
    None,
    /// Each call of a key looks at all of them.
    #[error("must name at most {MOST_NETWORKS} networks")]
    TooMany,
    /// The text is no network.
    #[error("must be an address or a network, such as 10.0.0.7, 10.0.0.0/8 or 2001:db8::/32")]
    NotANetwork,
    /// The address has more bits than the network: a slip of the pen in one of the two.
    #[error("must be the first address of its network: {0}")]
    InsideNetwork(IpNet),
    /// Part of it would be IPv4 addresses, and part of it nothing at all.
    #[error(
        "must have a prefix of 96 or more for IPv4 inside IPv6: write it as IPv4, such as 10.0.0.0/8"
    )]
    HalfMapped,
}

/// The bits of `::ffff:0:0/96`, before which there is no IPv4 address inside IPv6.
const MAPPED_BITS: u8 = 96;

impl Networks {
    /// Networks, each in CIDR notation, or a single address.
    pub fn new<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, NetworksError> {
        let networks: BTreeSet<IpNet> =
            texts.into_iter().map(|text| network(text.as_ref())).collect::<Result<_, _>>()?;
        match networks.len() {
            0 => Err(NetworksError::None),
            1..=MOST_NETWORKS => Ok(Self(networks)),
            _ => Err(NetworksError::TooMany),
        }
    }

    /// The rule: whether a caller at this address may use the key. An IPv4 address is the same
    /// whether it comes as such or inside an IPv6 one.
    pub fn cover(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Each of them, in CIDR notation.
    pub fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(IpNet::to_string)
    }
}

fn network(text: &str) -> Result<IpNet, NetworksError> {
    let network: IpNet = match text.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().into(),
        Err(_) => plain(text.parse().map_err(|_| NetworksError::NotANetwork)?)?,
    };
    match network.trunc() {
        first if first == network => Ok(network),
        first => Err(NetworksError::InsideNetwork(first)),
    }
}

/// A network of IPv4 addresses inside IPv6 as what it is: callers are compared as IPv4, see
/// [`Networks::cover`].
fn plain(network: IpNet) -> Result<IpNet, NetworksError> {
    let IpNet::V6(wide) = network else { return Ok(network) };
    let Some(address) = wide.addr().to_ipv4_mapped() else { return Ok(network) };
    let bits = wide.prefix_len().checked_sub(MAPPED_BITS).ok_or(NetworksError::HalfMapped)?;
    let narrow = Ipv4Net::new(address, bits).map_err(|_| NetworksError::NotANetwork)?;
    Ok(narrow.into())
}

/// With commas in between, as it is kept.
impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.texts().collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Networks {
    type Err = NetworksError;

    fn from_str(text: &str) -> Result<Self, NetworksError> {
        Self::new(text.split(','))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table() {
        let networks = "10.0.0.0/8,192.168.1.7,2001:db8::/32,::1";
        let networks: Networks = networks.parse().unwrap();
        for (address, inside) in [
            ("10.0.0.0", true),
            ("10.255.255.255", true),
            ("11.0.0.0", false),
            ("9.255.255.255", false),
            ("192.168.1.7", true),
            ("192.168.1.8", false),
            ("::ffff:10.1.2.3", true),
            ("::ffff:11.1.2.3", false),
            ("2001:db8::1", true),
            ("2001:db9::1", false),
            ("::1", true),
            ("127.0.0.1", false),
        ] {
            assert_eq!(networks.cover(address.parse().unwrap()), inside, "{address}");
        }
        let everywhere: Networks = "0.0.0.0/0,::/0".parse().unwrap();
        assert!(everywhere.cover("203.0.113.9".parse().unwrap()));
        assert!(everywhere.cover("2001:db8::1".parse().unwrap()));
    }

    /// Callers are compared as IPv4, so such a network matched nobody.
    #[test]
    fn hole_44_ipv4_inside_ipv6_is_ipv4() {
        for (text, kept) in [
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:0a00:0000/104", "10.0.0.0/8"),
            ("::ffff:192.168.1.7/128", "192.168.1.7/32"),
            ("::ffff:192.168.1.7", "192.168.1.7/32"),
            ("::ffff:0.0.0.0/96", "0.0.0.0/0"),
        ] {
            let networks: Networks = text.parse().unwrap();
            assert_eq!(networks.to_string(), kept, "{text}");
            let inside: IpAddr = kept.split('/').next().unwrap().parse().unwrap();
            assert!(networks.cover(inside), "{text}");
        }
        let inside = "::ffff:10.0.0.7/104".parse::<Networks>();
        assert_eq!(inside, Err(NetworksError::InsideNetwork("10.0.0.0/8".parse().unwrap())));
        for text in ["::ffff:10.0.0.0/95", "::ffff:0.0.0.0/81", "::ffff:0.0.0.0/0"] {
            assert_eq!(text.parse::<Networks>(), Err(NetworksError::HalfMapped), "{text}");
        }
        // What is kept in a database already can still be read.
        assert!("::fffe:0:0/95,::/0,::/64".parse::<Networks>().is_ok());
    }

    #[test]
    fn what_is_written_reads_back() {
        let networks: Networks = "192.168.1.7,10.0.0.0/8,10.0.0.0/8".parse().unwrap();
        assert_eq!(networks.to_string(), "10.0.0.0/8,192.168.1.7/32");
        assert_eq!(networks.to_string().parse(), Ok(networks));
    }

    #[test]
    fn nonsense_is_no_network() {
        use NetworksError::{InsideNetwork, NotANetwork, TooMany};
        for text in
            ["", "10.0.0.0/33", "10.0.0", "localhost", "10.0.0.0/8,", "::/129", "10.0.0.0/-1"]
        {
            assert_eq!(text.parse::<Networks>(), Err(NotANetwork), "{text}");
        }
        let inside = "10.0.0.7/8".parse::<Networks>();
        assert_eq!(inside, Err(InsideNetwork("10.0.0.0/8".parse().unwrap())));
        assert_eq!(Networks::new([""; 0]), Err(NetworksError::None));
        let many = (0..33).map(|last| format!("10.0.0.{last}"));
        assert_eq!(Networks::new(many), Err(TooMany));
    }
}

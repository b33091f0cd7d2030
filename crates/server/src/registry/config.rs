//! Configurations that all instances of a fleet share, each under a version.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use stile_registry::{Config, ConfigName};
use utoipa::ToSchema;

use super::body::version;
use super::text;
use super::view::ConfigView;
use crate::app::Shared;
use crate::code::Code;
use crate::extract::{Body, Parts};
use crate::problem::{Problem, Problems};
use crate::schema;

/// A configuration to be written.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = WriteConfig, example = json!({ "value": { "beam": 5 }, "expectedVersion": 0 }))]
pub(crate) struct ConfigBody {
    /// What it is to say: any JSON.
    value: Value,
    /// The version that was decided by; 0 if there was none. If it is another one by now, nothing is
    /// written.
    #[schema(value_type = schema::GivenVersion)]
    expected_version: u64,
}

/// Show a configuration.
#[utoipa::path(
    get, path = "/api/v1/registry/config/{name}", tag = "registry", operation_id = "show_config",
    params(("name" = schema::ConfigurationName, Path)),
    responses(
        (status = 200, description = "The configuration", body = ConfigView),
        Problems,
    )
)]
pub(crate) async fn show(
    State(app): State<Shared>,
    Parts(name): Parts<String>,
) -> Result<Json<Arc<Config>>, Problem> {
    let name: ConfigName = text::name("name", &name)?;
    let missing = || Problem::new(Code::ConfigNotFound, format!("nobody has written {name} yet"));
    app.registry.config(&name).await?.map(Json).ok_or_else(missing)
}

/// Write a configuration, if it is still at the version that was decided by.
#[utoipa::path(
    put, path = "/api/v1/registry/config/{name}", tag = "registry", operation_id = "write_config",
    request_body = ConfigBody,
    params(("name" = schema::ConfigurationName, Path)),
    responses(
        (status = 200, description = "The configuration as it is now", body = ConfigView),
        Problems,
    )
)]
pub(crate) async fn write(
    State(app): State<Shared>,
    Parts(name): Parts<String>,
    Body(body): Body<ConfigBody>,
) -> Result<Json<Arc<Config>>, Problem> {
    let name: ConfigName = text::name("name", &name)?;
    let expected = version("expectedVersion", body.expected_version)?;
    Ok(Json(app.registry.set_config(&name, expected, &body.value).await?))
}

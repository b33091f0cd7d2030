//! A slot for a job, and its end.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use stile_registry::{Job, JobId, JobRequest, PoolId, Requirement};
use utoipa::ToSchema;

use super::view::JobView;
use super::{own, text};
use crate::app::Shared;
use crate::extract::{Body, Parts};
use crate::problem::{Problem, Problems};
use crate::schema;

/// The longest name of a session.
const LONGEST_SESSION: usize = 200;

/// What a session wants done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = DispatchRequest, example = json!({
    "session": "call-4711", "services": ["asr:zh", "nmt"], "pool": "speech",
}))]
pub(crate) struct DispatchBody {
    /// Whose job it is; its jobs stay in one pool.
    #[schema(value_type = schema::SessionName)]
    session: String,
    /// What the node must offer. May be empty if the pool is named.
    #[schema(value_type = Vec<schema::Requirement>)]
    services: Vec<Requirement>,
    /// The pool; without it that of the session, which is chosen with its first job.
    #[schema(value_type = Option<schema::PoolName>)]
    pool: Option<PoolId>,
}

impl DispatchBody {
    fn request(self) -> Result<JobRequest, Problem> {
        let visible = self.session.bytes().all(|byte| byte.is_ascii_graphic());
        if !visible || !(1..=LONGEST_SESSION).contains(&self.session.len()) {
            let rule = format!("must be 1 to {LONGEST_SESSION} visible ASCII characters");
            return Err(Problem::field("session", rule));
        }
        if self.services.is_empty() && self.pool.is_none() {
            // Any node would do, whatever it is for.
            return Err(Problem::field("services", "must name a service, unless pool is given"));
        }
        Ok(JobRequest { session: self.session, services: self.services, pool: self.pool })
    }
}

/// Find a node for a job and take a slot of it.
///
/// The least loaded node is asked first, and the next if it refuses; with none left the answer is
/// 429. The slot is the job's until it is completed, or for `registry.job_ttl`.
#[utoipa::path(
    post, path = "/api/v1/dispatch", tag = "registry", operation_id = "dispatch",
    request_body = DispatchBody,
    responses(
        (status = 201, description = "The job, with its node", body = JobView),
        Problems,
    )
)]
pub(crate) async fn dispatch(
    State(app): State<Shared>,
    Body(body): Body<DispatchBody>,
) -> Result<(StatusCode, Json<Job>), Problem> {
    let request = body.request()?;
    own::check_pools(request.pool.as_slice())?;
    let job = app.registry.dispatch(&request).await?;
    if let Err(problem) = own::check_pools(std::slice::from_ref(&job.pool)) {
        // Nobody else offers it. A slot of a chain endpoint is a call less that Stile can make.
        app.registry.release(&job.job_id).await?;
        return Err(problem);
    }
    Ok((StatusCode::CREATED, Json(job)))
}

/// Complete a job: its slot, and no other, is free.
///
/// A job that is over, completed before or run out, is 404 `job-over`.
#[utoipa::path(
    post, path = "/api/v1/jobs/{id}/complete", tag = "registry", operation_id = "complete_job",
    params(("id" = schema::JobName, Path)),
    responses(
        (status = 204, description = "It is completed"),
        Problems,
    )
)]
pub(crate) async fn complete(
    State(app): State<Shared>,
    Parts(id): Parts<String>,
) -> Result<StatusCode, Problem> {
    let job: JobId = text::name("id", &id)?;
    app.registry.complete(&job).await?;
    Ok(StatusCode::NO_CONTENT)
}

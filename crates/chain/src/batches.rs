//! Many questions of one kind to one endpoint.

use crate::endpoint::Endpoint;
use crate::rpc::{Answer, Call, CallError};

/// Asks an endpoint one question about each subject, in batches of at most `limit`, and reads the
/// answers in their order. One that cannot be read ends it: who is asked for all gives all or
/// nothing.
pub(crate) async fn ask_each<S: Copy, T>(
    endpoint: &Endpoint,
    limit: usize,
    subjects: &[S],
    call: impl Fn(S) -> Call,
    read: impl Fn(Answer, S) -> Result<T, CallError>,
) -> Result<Vec<T>, CallError> {
    let mut answers = Vec::with_capacity(subjects.len());
    for subjects in subjects.chunks(limit.max(1)) {
        let calls: Vec<Call> = subjects.iter().map(|subject| call(*subject)).collect();
        for (answer, subject) in endpoint.rpc.batch(&calls).await.into_iter().zip(subjects) {
            answers.push(read(answer, *subject)?);
        }
    }
    Ok(answers)
}

/// The same, and one answer that cannot be read does not spoil the others. An error if there is an
/// answer that is none: the endpoint failed, or said no.
pub(crate) async fn ask_each_apart<S: Copy, T>(
    endpoint: &Endpoint,
    limit: usize,
    subjects: &[S],
    call: impl Fn(S) -> Call,
    read: impl Fn(Answer, S) -> Result<T, CallError>,
) -> Result<Vec<Result<T, CallError>>, CallError> {
    ask_each(endpoint, limit, subjects, call, |answer, subject| match read(answer, subject) {
        Err(error) if error.is_about_one() => Ok(Err(error)),
        told => told.map(Ok),
    })
    .await
}

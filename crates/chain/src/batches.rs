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

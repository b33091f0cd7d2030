//! Waiting ends with the condition, and says what it waited for when it does not come.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use testkit::{eventually, eventually_within};

#[tokio::test]
async fn a_wait_ends_with_the_first_answer() {
    let mut asked = 0;
    let answer = eventually("the third question", async || {
        asked += 1;
        (asked == 3).then_some(asked)
    });
    assert_eq!(answer.await, 3);
}

#[tokio::test]
async fn a_wait_that_fails_names_the_condition_and_the_line() {
    let hangs = async || std::future::pending::<Option<()>>().await;
    let wait = eventually_within(Duration::from_millis(50), "spring", hangs);
    let panic = AssertUnwindSafe(wait).catch_unwind().await.expect_err("gives up");
    let message = panic.downcast_ref::<String>().expect("a message");
    assert!(message.contains("for spring"), "{message}");
    assert!(message.contains("tests/wait.rs:"), "{message}");
}

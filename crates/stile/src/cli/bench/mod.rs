//! `stile bench`.
use super::Failure;
#[derive(Debug, clap::Subcommand)]
pub(super) enum BenchCommand {
    Allocate,
}
pub(super) async fn bench(_c: BenchCommand) -> Result<(), Failure> {
    Ok(())
}

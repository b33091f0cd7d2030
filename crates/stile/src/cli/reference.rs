//! `stile reference`: the generated pages of the documentation.

use clap::{Args, ValueEnum};

use super::Failure;

#[derive(Debug, Args)]
pub(super) struct ReferenceArgs {
    page: Page,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Page {
    Configuration,
    Errors,
    Metrics,
    Openapi,
    States,
}

pub(super) fn reference(args: &ReferenceArgs) -> Result<(), Failure> {
    match args.page {
        Page::Configuration => print!("{}", crate::config::reference_markdown()),
        Page::Errors => print!("{}", stile_server::code::reference_markdown()),
        Page::Metrics => print!("{}", stile_engine::metrics::reference_markdown()),
        Page::States => print!("{}", stile_domain::tx::reference_markdown()),
        Page::Openapi => println!("{}", stile_server::openapi().to_pretty_json()?),
    }
    Ok(())
}

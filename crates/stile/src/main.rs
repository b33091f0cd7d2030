//! The `stile` binary. Everything is in the library; this only starts it.

use std::process::ExitCode;

fn main() -> ExitCode {
    stile::cli::run()
}

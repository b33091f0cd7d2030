//! The `stile` binary. Everything is in the library; this only starts it.

use std::process::ExitCode;

/// Many small values live short lives on many threads; the system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    stile::cli::run()
}

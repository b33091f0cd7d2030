//! A server that stands still.

use std::path::Path;

use super::Postgres;
use crate::signal::Signal;

/// A server none of whose processes runs. Dropped, they go on.
#[derive(Debug)]
#[must_use = "it goes on at once otherwise"]
pub struct Frozen {
    processes: Vec<u32>,
}

impl Postgres {
    /// Freezes the server where it stands, with everything it has forked: connections stay open, new
    /// ones are taken by the kernel, and nothing is answered.
    pub fn freeze(&self) -> Frozen {
        let server = self.process().id();
        // The server first, so that it forks nothing while its children are looked for.
        Signal::Stop.send(server);
        let mut processes = children(server);
        for child in &processes {
            Signal::Stop.send(*child);
        }
        processes.push(server);
        Frozen { processes }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for process in &self.processes {
            Signal::Cont.send(*process);
        }
    }
}

/// The processes that another one has started.
fn children(parent: u32) -> Vec<u32> {
    let processes = Path::new("/proc").read_dir().expect("read /proc");
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|number| parent_of(*number) == Some(parent)).collect()
}

fn parent_of(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

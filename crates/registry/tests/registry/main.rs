//! The registry in one process, on a Redis server and on a Redis Cluster.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod access;
mod alike;
mod common;
mod configs;
mod faults;
mod holes;
mod jobs;
mod losses;
mod nodes;
mod outage;
mod processes;
mod views;

//! The scripts. Each is written to be at home in one hash slot.

use std::sync::LazyLock;

/// A script, called by its hash. A server that does not know it is sent the text, and knows it then.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: &'static str,
    pub(super) hash: String,
}

macro_rules! script {
    ($name:ident, $file:literal) => {
        pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
            let text = concat!(include_str!("lua/common.lua"), "\n", include_str!($file));
            Script { text, hash: redis::Script::new(text).get_hash().to_owned() }
        });
    };
}

script!(REGISTER, "lua/register.lua");
script!(HEARTBEAT, "lua/heartbeat.lua");
script!(REMOVE, "lua/remove.lua");
script!(RESERVE, "lua/reserve.lua");
script!(CONFIRM, "lua/confirm.lua");
script!(RELEASE, "lua/release.lua");
script!(CAPACITY, "lua/capacity.lua");
script!(MEMBERS, "lua/members.lua");
script!(SESSION, "lua/session.lua");
script!(CONFIG, "lua/config.lua");

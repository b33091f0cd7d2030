//! The secret that all nodes of a cluster share, and which texts are good enough to be one.

use std::collections::BTreeSet;
use std::fmt;

use zeroize::Zeroizing;

/// A secret that all nodes of a cluster share. It is never sent anywhere, and is in no debug output.
#[derive(Clone)]
pub struct ClusterSecret(Zeroizing<String>);

/// The fewest characters that a secret has.
const SHORTEST: usize = 32;

/// The fewest different characters that it has. 32 random hexadecimal digits have fewer in one case
/// of many millions.
const FEWEST_DIFFERENT: usize = 8;

/// The fewest letters and digits that are left of it without the words below.
const FEWEST_BESIDE_WORDS: usize = 24;

/// What people write where a secret belongs. Each is taken out before a text is judged, so a random
/// text that happens to have one in it is still long enough.
const OBVIOUS: [&str; 37] = [
    "0123456789",
    "abcdefghijklm",
    "admin",
    "asdfghjkl",
    "battery",
    "changeit",
    "changeme",
    "change",
    "cluster",
    "correct",
    "default",
    "demo",
    "development",
    "dummy",
    "ethereum",
    "example",
    "hello",
    "horse",
    "hunter2",
    "letmein",
    "local",
    "master",
    "passphrase",
    "password",
    "passwd",
    "placeholder",
    "please",
    "production",
    "qwerty",
    "secret",
    "staple",
    "stile",
    "super",
    "test",
    "token",
    "welcome",
    "zxcvbnm",
];

/// Why a text cannot be a cluster's secret. The text is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{weakness}: make one with `openssl rand -hex 32` and give it to every node")]
pub struct WeakSecret {
    weakness: Weakness,
}

/// What makes it easy to guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Weakness {
    #[error("must be visible ASCII characters without spaces")]
    NotVisible,
    #[error("must be at least {SHORTEST} characters")]
    Short,
    #[error("must have at least {FEWEST_DIFFERENT} different characters")]
    Monotonous,
    #[error("repeats the same characters over and over")]
    Repeated,
    #[error("counts up or down")]
    Counted,
    #[error("is made of words that are the first to be guessed")]
    Obvious,
}

/// What is weak about a text; `None` if nothing is found.
fn weakness(text: &str) -> Option<Weakness> {
    let bytes = text.as_bytes();
    if !bytes.iter().all(u8::is_ascii_graphic) {
        return Some(Weakness::NotVisible);
    }
    if bytes.len() < SHORTEST {
        return Some(Weakness::Short);
    }
    if bytes.iter().collect::<BTreeSet<_>>().len() < FEWEST_DIFFERENT {
        return Some(Weakness::Monotonous);
    }
    if (1..=bytes.len() / 2).any(|period| bytes[period..] == bytes[..bytes.len() - period]) {
        return Some(Weakness::Repeated);
    }
    let neighbours = bytes.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 1).count();
    if neighbours > bytes.len() / 2 {
        return Some(Weakness::Counted);
    }
    let lower = text.to_ascii_lowercase();
    let rest = OBVIOUS.iter().fold(lower, |rest, word| rest.replace(word, ""));
    let rest = rest.bytes().filter(u8::is_ascii_alphanumeric).count();
    (rest < FEWEST_BESIDE_WORDS).then_some(Weakness::Obvious)
}

impl ClusterSecret {
    /// Refuses what could be guessed.
    pub fn new(text: &str) -> Result<Self, WeakSecret> {
        match weakness(text) {
            None => Ok(Self(Zeroizing::new(text.to_owned()))),
            Some(weakness) => Err(WeakSecret { weakness }),
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_40_a_secret_that_could_be_guessed_is_none() {
        use Weakness::{Counted, Monotonous, NotVisible, Obvious, Repeated, Short};
        for (text, expected) in [
            ("", Some(Short)),
            ("correct-horse-battery", Some(Short)),
            ("f3a91c07d2b64e85a0c7f19b3d5e826", Some(Short)),
            ("with spaces it cannot be one at all, ever", Some(NotVisible)),
            ("ünvisible-in-ascii-and-long-enough-for-it", Some(NotVisible)),
            ("line\nbreaks-are-not-visible-characters-1", Some(NotVisible)),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Some(Monotonous)),
            ("0000000000000000000000000000000000000000000000000000000000000001", Some(Monotonous)),
            ("abcabcacbabcabcbacbabcabcabcacbbacb", Some(Monotonous)),
            ("deadbeef1deadbeef1deadbeef1deadbeef1", Some(Monotonous)),
            ("x7Kp2QvLx7Kp2QvLx7Kp2QvLx7Kp2QvL", Some(Repeated)),
            ("f3a91c07d2b64e85f3a91c07d2b64e85", Some(Repeated)),
            ("f3a91c07d2b64e85f3a91c07d2b64e85f3a9", Some(Repeated)),
            ("abcdefghijklmnopqrstuvwxyz0123456789", Some(Counted)),
            ("9876543210zyxwvutsrqponmlkjihgfedcba", Some(Counted)),
            ("correct-horse-battery-staple-correct-horse", Some(Obvious)),
            ("my-super-secret-cluster-password-please-change", Some(Obvious)),
            ("ChangeMe-ChangeMe-Stile-Production-Secret-1", Some(Obvious)),
            ("development-secret-development-password-0", Some(Obvious)),
            // Of `openssl rand -hex 32`, `-hex 16`, `-base64 32`, `pwgen 40 1` and `uuidgen`.
            ("0d6c3ab1f9e24578bb1c90e7d35af2648c7b1e90fa26d4538e0b7c1fd29a6e43", None),
            ("9f3b7c21e8a04d56b1c8f27a0e6d9354", None),
            ("q8Zl3rT0vN5xYw1KcJ7uB2mHs9DfPaEgRi4oVtXyLk0=", None),
            ("oeSh4aiquuo0Chae9eing6EiGh3ooxah7dooCh5i", None),
            ("6f1c2f0e-7d1b-4a53-9a38-0b7be2c6c1f4", None),
            // A word of the list by chance.
            ("test0d6c3ab1f9e24578bb1c90e7d35af2648c7b1e90fa26", None),
        ] {
            assert_eq!(weakness(text), expected, "{text}");
            if let Err(error) = ClusterSecret::new(text) {
                let said = format!("{error} {error:?}");
                assert!(said.contains("openssl rand -hex 32"), "{said}");
                assert!(text.is_empty() || !said.contains(text), "{said}");
            }
        }
    }

    #[test]
    fn what_is_random_is_good() {
        for _ in 0..1000 {
            let digits: String =
                (0..2).map(|_| uuid::Uuid::new_v4().simple().to_string()).collect();
            assert_eq!(weakness(&digits), None, "{digits}");
            assert_eq!(weakness(&digits[..32]), None, "{digits}");
        }
    }

    #[test]
    fn it_is_in_no_debug_output() {
        let text = "0d6c3ab1f9e24578bb1c90e7d35af2648c7b1e90fa26d4538e0b7c1fd29a6e43";
        let secret = ClusterSecret::new(text).unwrap();
        assert_eq!(format!("{secret:?}"), "ClusterSecret(…)");
    }
}

//! The secret of an API key, and what is kept of it.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

/// What every token begins with, so that people and scanners know one when they see it.
const PREFIX: &str = "stile_";
const SECRET_BYTES: usize = 32;
/// [`SECRET_BYTES`] in base 64.
const SECRET_CHARACTERS: usize = 43;
/// So many characters of the secret are kept for lists: enough to tell keys apart, and 220 bits
/// are left to guess.
const HINT_CHARACTERS: usize = 6;

/// The secret that its owner sends with every call: `stile_` and 32 random bytes in URL-safe
/// base 64. Shown once, kept nowhere, wiped from memory when it is dropped, and in no debug
/// output.
#[derive(Clone)]
pub struct Token(Zeroizing<String>);

/// The text is no token. It is not repeated here: it may be one with a character missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not an API key: one is stile_ and {SECRET_CHARACTERS} more characters")]
pub struct NotAToken;

impl Token {
    /// A new one, from the randomness of the operating system. Fails if that has none to give.
    pub fn fresh() -> std::io::Result<Self> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + SECRET_CHARACTERS));
        text.push_str(PREFIX);
        URL_SAFE_NO_PAD.encode_string(secret, &mut text);
        secret.zeroize();
        Ok(Self(text))
    }

    /// What is stored instead of the token.
    ///
    /// A plain SHA-256, not one of the slow hashes that passwords need: those make guessing
    /// dear where there is little to guess. A token has 256 random bits, so nobody guesses it at
    /// any speed, and a slow hash would only make every call slow.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.0.as_bytes()).into())
    }

    /// The first characters of the secret, for lists.
    pub fn hint(&self) -> &str {
        self.0.get(PREFIX.len()..PREFIX.len() + HINT_CHARACTERS).unwrap_or_default()
    }

    /// The token itself, for its owner alone.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for Token {
    type Err = NotAToken;

    /// Reads a token. Every token has one spelling only.
    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let secret = text.strip_prefix(PREFIX).ok_or(NotAToken)?;
        if secret.len() != SECRET_CHARACTERS {
            return Err(NotAToken);
        }
        let mut bytes = Zeroizing::new([0; SECRET_BYTES + 1]);
        match URL_SAFE_NO_PAD.decode_slice_unchecked(secret, bytes.as_mut()) {
            Ok(SECRET_BYTES) => Ok(Self(Zeroizing::new(text.to_owned()))),
            _ => Err(NotAToken),
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

/// The SHA-256 of a token. Whoever reads the database learns no token from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenHash(pub [u8; 32]);

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_and_no_two_are_alike() {
        let token = Token::fresh().unwrap();
        let text = token.reveal().to_owned();
        assert_eq!(text.len(), 49, "stile_ and 43 characters");
        let urlsafe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        assert!(text.bytes().all(urlsafe), "{text}");
        let read: Token = text.parse().unwrap();
        assert_eq!((read.reveal(), read.hash()), (text.as_str(), token.hash()));
        assert!(text["stile_".len()..].starts_with(token.hint()) && token.hint().len() == 6);
        let other = Token::fresh().unwrap();
        assert_ne!(other.reveal(), text);
        assert_ne!(other.hash(), token.hash());
    }

    #[test]
    fn the_hash_is_the_sha_256_of_the_whole_text() {
        let token: Token = format!("stile_{}", "A".repeat(43)).parse().unwrap();
        let expected = Sha256::digest(format!("stile_{}", "A".repeat(43)));
        assert_eq!(token.hash().0[..], expected[..]);
    }

    #[test]
    fn what_is_no_token_is_refused_without_being_repeated() {
        let good = Token::fresh().unwrap().reveal().to_owned();
        let secret = &good["stile_".len()..];
        for bad in [
            "",
            "stile_",
            secret,
            &good[..48],
            &format!("{good}A"),
            &format!("{good}="),
            &format!(" {good}"),
            &format!("Stile_{secret}"),
            &format!("stile_+{}", &secret[1..]),
            // The last character carries four bits; a spelling with more of them is no token.
            &format!("{}B", &good[..48]),
            &format!("stile_{}", "é".repeat(21)),
        ] {
            let refused = bad.parse::<Token>().map(|_| ()).unwrap_err();
            assert!(!format!("{refused} {refused:?}").contains(&secret[..6]), "{refused}");
        }
    }

    #[test]
    fn debug_output_has_no_secret() {
        let token = Token::fresh().unwrap();
        let shown = format!("{token:?} {:#?} {:?}", Some(&token), token.hash());
        assert!(!shown.contains(token.hint()), "{shown}");
        assert_eq!(format!("{token:?}"), "Token(***)");
    }
}

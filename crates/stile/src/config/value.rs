//! The kinds of value a key can have: how each is written, checked and shown.

mod choice;
mod duration;
mod given;
mod kept;
mod kind;
mod mask;
mod range;
mod secret;
mod url;

pub(super) use self::choice::choice;
pub use self::duration::{HumanDuration, NotADuration};
pub(super) use self::given::Given;
pub use self::kept::Kept;
pub(super) use self::kind::Kind;
pub use self::range::DurationRange;
pub use self::secret::{NotASecretReference, SecretReference};
pub use self::url::ConnectionUrl;

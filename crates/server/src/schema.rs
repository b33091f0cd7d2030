//! What the texts and numbers of the API look like, for the OpenAPI document.
//!
//! Nothing here is read or written: a field says `value_type = schema::Address`, and the document
//! says once what an address is. The rules themselves are where values are read (`extract`,
//! `tx::value`); a test that sends what the document allows, and what it does not, holds the two
//! together.

use std::borrow::Cow;

use stile_domain::{
    AttemptKind, EventKind, HoldStatus, LaneEventKind, MAX_NONCE, Operation, Outcome, SubState,
    Successor, TxState, WaitCode,
};
use stile_engine::Capability;
use utoipa::openapi::schema::{AnyOfBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::code::Code;
use crate::registry::body::{HIGHEST_GIVEN, HIGHEST_VERSION};

macro_rules! schemas {
    ($($name:ident $description:literal $schema:expr;)*) => {$(
        #[doc = $description]
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                $schema.description(Some($description)).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }
    )*};
}

schemas! {
    Address "An account. Lower case, upper case, or the mixed case of its EIP-55 checksum."
        text("^0x[0-9a-fA-F]{40}$", "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
    ChainId "A chain, by its EIP-155 number. JavaScript rounds numbers above 2^53 - 1: `chainIdText` is exact."
        whole(1, i64::MAX).examples([31337]);
    ChainIdText "A chain, by its EIP-155 number, as a decimal text: exact whatever reads it."
        text("^[1-9][0-9]{0,18}$", "31337");
    GivenChainId "A chain, by its EIP-155 number: a JSON integer, or a decimal or `0x` text. A text is exact where numbers are rounded above 2^53 - 1."
        AnyOfBuilder::new().item(pattern("^(0x[0-9a-fA-F]{1,16}|[0-9]{1,19})$")).item(whole(1, i64::MAX)).examples([31337]);
    Hash "32 bytes: a transaction's hash or a block's."
        text("^0x[0-9a-fA-F]{64}$", "0x4811793159e1289e7a312073bd8eeb09212c894fe3ddcdd93943a8cc753e78d0");
    Bytes "Bytes as pairs of hexadecimal digits."
        text("^0x([0-9a-fA-F]{2})*$", "0x");
    Wei "An amount of wei below 2^256: a decimal or `0x` text, or a JSON integer."
        amount("^(0x[0-9a-fA-F]{1,64}|[0-9]{1,78})$").examples(["1000000000000000"]);
    GasPrice "Wei for a unit of gas, below 2^64: a decimal or `0x` text, or a JSON integer."
        amount("^(0x[0-9a-fA-F]{1,16}|[0-9]{1,20})$");
    Gas "An amount of gas below 2^63: a decimal or `0x` text, or a JSON integer."
        amount("^(0x[0-9a-fA-F]{1,16}|[0-9]{1,19})$").examples(["21000"]);
    Nonce "A nonce."
        whole(0, i64::try_from(MAX_NONCE).unwrap_or(i64::MAX)).examples([7]);
    RequestId "A caller's own name for a request: 1 to 255 visible ASCII characters, with no blank at either end."
        pattern("^[!-~]([ -~]{0,253}[!-~])?$");
    Reason "Words for people: something to read, and no more than 1024 bytes of it in UTF-8."
        text(r"^[^\x00]*\S[^\x00]*$", "not sent").max_length(Some(1024));
    Limit "How many to list; 100 if left out."
        whole(1, 500).examples([100]);
    SeenBlock "A block as `<blockNumber>:<blockHash>`."
        text("^[0-9]{1,18}:0x[0-9a-fA-F]{64}$", "7:0x4811793159e1289e7a312073bd8eeb09212c894fe3ddcdd93943a8cc753e78d0");
    SignerCursor "`next` of a page of signers."
        text("^[1-9][0-9]{0,17}:0x[0-9a-fA-F]{40}$", "31337:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
    StreamPosition "A place in the stream of events."
        text("^[0-9]{1,18}-[0-9]{1,18}(-[0-7][0-9a-f]{15})?$", "0-0");
    KeyName "A name for an API key: letters, digits, dots, dashes and underscores."
        text("^[A-Za-z0-9._-]{1,64}$", "shop");
    Lifetime "How long an API key is good for, in seconds: up to ten years."
        whole(1, 315_360_000).examples([7_776_000]);
    Network "A network in CIDR notation, or a single address, IPv4 or IPv6."
        text("^[0-9a-fA-F.:]{2,45}(/[0-9]{1,3})?$", "10.0.0.0/8");
    Overlap "How long a rotated key stays good, in seconds; a day if left out."
        whole(1, 315_360_000).examples([86_400]);
    OperationName "What a key may do. `admin` implies all others."
        names(Operation::ALL.iter().map(|operation| operation.name()));
    ErrorCode "What went wrong, by its stable name."
        names(Code::ALL.iter().map(|code| code.text()));
    HoldState "Where a hold stands."
        names(HoldStatus::ALL.iter().map(|status| status.name()));
    TxStateName "Where a transaction stands."
        names(TxState::ALL.iter().map(|state| state.name()));
    SubStateName "What there is to say about a transaction's state."
        names(SubState::ALL.iter().map(|sub_state| sub_state.name()));
    OutcomeName "How a transaction's execution ended."
        names(Outcome::ALL.iter().map(|outcome| outcome.name()));
    EventKindName "The kinds of entries in a transaction's history."
        names(EventKind::ALL.iter().map(|kind| kind.name()));
    LaneEventKindName "The kinds of entries in a signer's history."
        names(LaneEventKind::ALL.iter().map(|kind| kind.name()));
    AttemptKindName "What an attempt is for."
        names(AttemptKind::ALL.iter().map(|kind| kind.name()));
    SuccessorName "Whose transaction took a nonce."
        names(Successor::ALL.iter().map(|successor| successor.name()));
    WishName "What a transaction's caller wants of it that has not been seen to yet."
        names(["cancel", "speed-up"].into_iter());
    WaitCodeName "What a transaction waits for."
        names(WaitCode::ALL.iter().map(|code| code.name()));
    NodeName "A node's name: letters, digits, dots, underscores, dashes and colons."
        text("^[A-Za-z0-9._:-]{1,200}$", "asr-1");
    NodeNames "Names of up to 500 nodes, with commas in between."
        text("^[A-Za-z0-9._:-]{1,200}(,[A-Za-z0-9._:-]{1,200}){0,499}$", "asr-1,asr-2");
    PoolName "A pool's name: letters, digits, dots, underscores, dashes and colons."
        text("^[A-Za-z0-9._:-]{1,200}$", "speech");
    ConfigurationName "A configuration's name: letters, digits, dots, underscores, dashes and colons."
        text("^[A-Za-z0-9._:-]{1,200}$", "speech-models");
    Requirement "A service, or a service for one thing."
        text("^[A-Za-z0-9._-]{1,200}(:[A-Za-z0-9._-]{1,200})?$", "asr:zh");
    Requirements "Services with commas in between."
        text("^([A-Za-z0-9._-]{1,200}(:[A-Za-z0-9._-]{1,200})?(,[A-Za-z0-9._-]{1,200}(:[A-Za-z0-9._-]{1,200})?)*)?$", "asr,nmt:zh");
    ServiceMap "Services, each with what it is offered for, such as languages; an empty list where there is nothing to distinguish."
        service_map().examples([serde_json::json!({ "asr": ["zh", "en"], "vad": [] })]);
    SessionName "A session: 1 to 200 visible ASCII characters."
        text("^[!-~]{1,200}$", "call-4711");
    JobName "A job, as the dispatch was answered."
        text("^[0-9a-fA-F]{32}@[A-Za-z0-9._:-]{1,200}$", "01a1df5ec8e07d3b9a6e2b7a5f3c1d20@asr-1");
    GivenVersion "A version as a caller gives it; there is room above it for later ones."
        whole(0, HIGHEST_GIVEN as i64).examples([1]);
    VersionNumber "A number that only rises."
        whole(0, HIGHEST_VERSION as i64).examples([1]);
    Concurrency "A number of jobs."
        whole(0, i64::from(u32::MAX)).examples([10]);
    Usage "A share of something: 0 is none and 1 is all."
        ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).maximum(Some(1_000_000_000)).examples([0.5]);
    RegistryMode "How far the node registry relies on Redis: `l2-only` while Redis fails, `local-only` while nothing is expected of it."
        names(["normal", "l2-only", "local-only"].into_iter());
    NodeStatus "Whether a node wants to be asked."
        names(["online", "offline"].into_iter());
    NodeHealth "How a node says it is."
        names(["Online", "Offline", "NotReady"].into_iter());
    CapabilityName "Something that some chain nodes can do and others cannot."
        names(Capability::ALL.iter().map(|capability| capability.name()));
    SupportedName "Whether an endpoint can do it, as far as that is known."
        names(["yes", "no", "unknown"].into_iter());
    SeverityName "How bad it is: `blocked` means that nothing moves until something is done."
        names(["info", "warning", "blocked"].into_iter());
}

/// The header that names a call; `extract` reads it.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "for the document alone")]
pub(crate) struct KeyHeader {
    /// Your own name for the call: the same name always gets the same answer.
    #[param(rename = "Idempotency-Key", value_type = RequestId, required = false)]
    key: (),
}

fn text(pattern: &str, example: &str) -> ObjectBuilder {
    self::pattern(pattern).examples([example])
}

fn pattern(pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern))
}

fn names(names: impl Iterator<Item = &'static str>) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names))
}

fn service_map() -> ObjectBuilder {
    let name = || pattern("^[A-Za-z0-9._-]{1,200}$").build();
    let list = utoipa::openapi::ArrayBuilder::new().items(name());
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .property_names(Some(name()))
        .additional_properties(Some(list))
}

fn whole(least: i64, most: i64) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(least))
        .maximum(Some(most))
}

/// Texts hold any amount; JSON integers are for people, and for what fits the numbers of every
/// programming language.
fn amount(pattern: &str) -> AnyOfBuilder {
    AnyOfBuilder::new().item(self::pattern(pattern)).item(whole(0, i64::MAX))
}

//! Who may call: made, listed, revoked, expired.

use std::time::Duration;

use stile_domain::{Address, KeyId, Operation, Scope, SignerScope, Token};
use stile_store::{Key, KeyRef, NewKey, Rotated, Rotation, Store, StoreError};
use testkit::eventually;

use crate::common::Bench;

on_both_stores!(
    a_key_is_made_listed_and_active,
    a_name_is_free_again_once_its_key_is_revoked,
    revoking_is_for_good_and_twice_is_harmless,
    a_key_ends_by_the_databases_clock,
    makers_of_one_name_at_one_time_get_one_key,
    two_keys_never_share_a_hash,
    the_database_refuses_nonsense,
    what_a_key_may_do_never_changes,
    hole_44_a_database_remembers_that_there_was_a_key,
    a_rotated_key_ends_and_its_successor_does_what_it_could,
    only_a_key_that_goes_on_is_rotated,
    rotations_at_one_time_make_one_key,
    hole_44_a_key_that_was_made_by_a_faster_clock_is_rotated,
    the_last_use_of_a_key_is_noted,
);

const HOUR: Duration = Duration::from_secs(3600);

fn scope(operations: &[Operation], signers: &[u8]) -> Scope {
    let only = signers.iter().map(|byte| Address::repeat_byte(*byte)).collect();
    let signers = if signers.is_empty() { SignerScope::All } else { SignerScope::Only(only) };
    Scope::new(operations.iter().copied(), signers).unwrap()
}

fn new_key(name: &str, scope: Scope, lifetime: Option<Duration>) -> NewKey {
    let token = Token::fresh().unwrap();
    let hint = token.hint().to_owned();
    NewKey {
        id: KeyId::fresh(),
        name: name.parse().unwrap(),
        hash: token.hash(),
        hint,
        scope,
        networks: None,
        lifetime,
    }
}

fn reader(name: &str) -> NewKey {
    new_key(name, scope(&[Operation::Read], &[]), None)
}

fn named(name: &str) -> KeyRef {
    KeyRef::Name(name.parse().unwrap())
}

async fn make(store: &dyn Store, key: &NewKey) -> Key {
    store.create_key(key).await.unwrap().expect("a free name")
}

async fn active_ids(store: &dyn Store) -> Vec<KeyId> {
    let mut ids: Vec<KeyId> =
        store.active_keys().await.unwrap().into_iter().map(|key| key.id).collect();
    ids.sort_unstable();
    ids
}

async fn a_key_is_made_listed_and_active(bench: Bench) {
    let store = &*bench.store;
    assert!(store.keys(true).await.unwrap().is_empty());
    assert!(store.active_keys().await.unwrap().is_empty());
    let all = [Operation::Read, Operation::Send, Operation::Operate];
    let given = [
        new_key("shop", scope(&all, &[1, 2]), Some(HOUR)),
        new_key("boss", scope(&[Operation::Admin], &[]), None),
    ];
    let mut made = Vec::new();
    for key in &given {
        made.push(make(store, key).await);
    }
    for (key, given) in made.iter().zip(&given) {
        assert_eq!((key.id, &key.name, &key.hint), (given.id, &given.name, &given.hint));
        assert_eq!((&key.scope, key.revoked_at), (&given.scope, None));
    }
    let ends = made[0].expires_at.unwrap().duration_since(made[0].created_at);
    assert_eq!(ends.as_secs(), 3600);
    assert_eq!(made[1].expires_at, None);

    let second = bench.second();
    assert_eq!(second.keys(false).await.unwrap(), made, "in the order they were made");
    assert_eq!(second.keys(true).await.unwrap(), made);
    let active = second.active_keys().await.unwrap();
    assert_eq!(active.len(), 2);
    for given in &given {
        let found = active.iter().find(|key| key.id == given.id).unwrap();
        assert_eq!((found.hash, &found.scope), (given.hash, &given.scope));
        let fits = |left: Duration| left <= HOUR && left > HOUR / 2;
        assert_eq!(found.remaining.map(fits), given.lifetime.map(|_| true));
    }
}

async fn a_name_is_free_again_once_its_key_is_revoked(bench: Bench) {
    let store = &*bench.store;
    let first = make(store, &reader("shop")).await;
    assert_eq!(store.create_key(&reader("shop")).await.unwrap(), None);
    assert_eq!(store.keys(true).await.unwrap(), std::slice::from_ref(&first));
    // A key that expired is still there until somebody revokes it.
    store.revoke_key(&named("shop")).await.unwrap().unwrap();
    let second = make(store, &reader("shop")).await;
    assert_eq!(store.keys(false).await.unwrap(), std::slice::from_ref(&second));
    let revoked = store.revoke_key(&named("shop")).await.unwrap().unwrap();
    assert_eq!(revoked.id, second.id, "the one that was not revoked");
    let ids: Vec<_> = store.keys(true).await.unwrap().into_iter().map(|key| key.id).collect();
    assert_eq!(ids, [first.id, second.id]);
}

async fn revoking_is_for_good_and_twice_is_harmless(bench: Bench) {
    let store = &*bench.store;
    let (one, other) = (make(store, &reader("one")).await, make(store, &reader("other")).await);
    let revoked = store.revoke_key(&KeyRef::Id(one.id)).await.unwrap().unwrap();
    assert!(revoked.revoked_at.is_some());
    assert_eq!(Key { revoked_at: None, ..revoked.clone() }, one);
    assert_eq!(active_ids(&*bench.second()).await, [other.id]);
    assert_eq!(store.keys(false).await.unwrap(), [other]);
    for again in [KeyRef::Id(one.id), named("one")] {
        assert_eq!(store.revoke_key(&again).await.unwrap(), Some(revoked.clone()));
    }
    for unknown in [KeyRef::Id(KeyId::fresh()), named("nobody")] {
        assert_eq!(store.revoke_key(&unknown).await.unwrap(), None);
    }
}

async fn a_key_ends_by_the_databases_clock(bench: Bench) {
    let store = &*bench.store;
    let soon = new_key("soon", scope(&[Operation::Read], &[]), Some(Duration::from_millis(50)));
    let soon = make(store, &soon).await;
    let later = make(store, &new_key("later", soon.scope.clone(), Some(HOUR))).await;
    eventually("the key to end", async || (active_ids(store).await == [later.id]).then_some(()))
        .await;
    assert_eq!(store.keys(false).await.unwrap(), [soon, later], "it is listed all the same");
    assert_eq!(store.create_key(&reader("soon")).await.unwrap(), None, "and has its name");
}

async fn makers_of_one_name_at_one_time_get_one_key(bench: Bench) {
    let stores: Vec<_> = (0..4).map(|_| bench.second()).collect();
    let keys: Vec<_> = stores.iter().map(|_| reader("shop")).collect();
    let made = stores.iter().zip(&keys).map(|(store, key)| store.create_key(key));
    let made = futures::future::join_all(made).await;
    let made: Vec<_> = made.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(bench.store.keys(true).await.unwrap(), made);
}

async fn two_keys_never_share_a_hash(bench: Bench) {
    let store = &*bench.store;
    let one = reader("one");
    make(store, &one).await;
    let copy = NewKey { id: KeyId::fresh(), name: "copy".parse().unwrap(), ..one };
    let refused = store.create_key(&copy).await;
    assert!(matches!(refused, Err(StoreError::Constraint(_))), "{refused:?}");
    assert_eq!(store.keys(true).await.unwrap().len(), 1);
}

async fn the_database_refuses_nonsense(bench: Bench) {
    make(&*bench.store, &new_key("shop", scope(&[Operation::Read], &[7]), None)).await;
    let raw = bench.raw().await;
    let zeros = |bytes: usize| match bench.database.is_postgres() {
        true => format!("'\\x{}'", "00".repeat(bytes)),
        false => format!("x'{}'", "00".repeat(bytes)),
    };
    for nonsense in [
        "name = ''".to_owned(),
        "name = 'a b'".to_owned(),
        format!("name = '{}'", "n".repeat(65)),
        format!("hash = {}", zeros(31)),
        "hint = ''".to_owned(),
        "operations = ''".to_owned(),
        "operations = 'write'".to_owned(),
        "operations = 'read,'".to_owned(),
        "operations = 'readsend'".to_owned(),
        "operations = 'admin'".to_owned(),
        format!("signers = {}", zeros(0)),
        format!("signers = {}", zeros(21)),
        "expires_at = created_at".to_owned(),
    ] {
        let refused = raw.attempt(&format!("UPDATE api_key SET {nonsense}")).await;
        assert!(refused.is_err(), "went through: {nonsense}");
    }
}

async fn what_a_key_may_do_never_changes(bench: Bench) {
    let store = &*bench.store;
    let key = make(store, &new_key("shop", scope(&[Operation::Read], &[7]), None)).await;
    let raw = bench.raw().await;
    for change in ["operations = 'read,send'", "signers = NULL"] {
        let refused = raw.attempt(&format!("UPDATE api_key SET {change}")).await.unwrap_err();
        assert!(refused.contains("what it may do never changes"), "{change}: {refused}");
    }
    store.revoke_key(&KeyRef::Id(key.id)).await.unwrap();
    let refused = raw.attempt("UPDATE api_key SET revoked_at = NULL").await.unwrap_err();
    assert!(refused.contains("a revoked key stays revoked"), "{refused}");
}

/// Whatever becomes of the keys, and whoever writes to the tables.
async fn hole_44_a_database_remembers_that_there_was_a_key(bench: Bench) {
    let store = &*bench.store;
    assert!(!store.key_existed().await.unwrap());
    make(store, &reader("only")).await;
    store.revoke_key(&named("only")).await.unwrap();
    assert!(store.active_keys().await.unwrap().is_empty());
    assert!(bench.second().key_existed().await.unwrap());
    let raw = bench.raw().await;
    for (removal, words) in [
        ("DELETE FROM api_key", "revoked, never removed"),
        ("DELETE FROM api_closed", "closed stays closed"),
        ("UPDATE api_closed SET one = one", "closed stays closed"),
        ("TRUNCATE api_key", "revoked, never removed"),
        ("TRUNCATE api_closed", "closed stays closed"),
    ] {
        if removal.starts_with("TRUNCATE") && !bench.database.is_postgres() {
            continue;
        }
        let refused = raw.attempt(removal).await.unwrap_err();
        assert!(refused.contains(words), "{removal}: {refused}");
    }
    assert!(store.key_existed().await.unwrap());
}

fn rotation(lifetime: Option<Duration>, overlap: Duration) -> Rotation {
    let token = Token::fresh().unwrap();
    let hint = token.hint().to_owned();
    Rotation { id: KeyId::fresh(), hash: token.hash(), hint, lifetime, overlap }
}

async fn a_rotated_key_ends_and_its_successor_does_what_it_could(bench: Bench) {
    let store = &*bench.store;
    let networks = "10.0.0.0/8,2001:db8::/32".parse().unwrap();
    let scope = scope(&[Operation::Read, Operation::Send], &[1, 2]);
    let wanted = NewKey { networks: Some(networks), ..new_key("shop", scope, Some(90 * HOUR)) };
    let first = make(store, &wanted).await;
    let turn = rotation(None, HOUR);
    let done = store.rotate_key(&named("shop"), &turn).await.unwrap();
    let Rotated::Done { new, old } = done else { panic!("{done:?}") };
    assert_eq!((new.id, &new.name, &new.hint), (turn.id, &first.name, &turn.hint));
    assert_eq!((&new.scope, &new.networks), (&first.scope, &first.networks));
    let lasts = |key: &Key| key.expires_at.unwrap().duration_since(key.created_at).as_secs();
    assert_eq!(lasts(&new), 90 * 3600, "as long as the old one was to");
    assert_eq!((old.id, old.replaced_by, new.replaced_by), (first.id, Some(new.id), None));
    let ends = old.expires_at.unwrap().duration_since(new.created_at).as_secs_f64();
    assert!((ends - 3600.0).abs() < 60.0, "{ends}");
    assert_eq!(active_ids(store).await.len(), 2, "both are good for a while");
    let listed = bench.second().keys(false).await.unwrap();
    assert_eq!(listed, [*old, *new.clone()]);

    // An overlap does not make a key last longer, and a lifetime that is given counts.
    let turn = rotation(Some(HOUR), 1000 * HOUR);
    let done = store.rotate_key(&KeyRef::Id(new.id), &turn).await.unwrap();
    let Rotated::Done { new: third, old: second } = done else { panic!("{done:?}") };
    assert_eq!(second.expires_at, new.expires_at);
    assert_eq!(lasts(&third), 3600);
    // By its name the one that goes on is meant.
    let revoked = store.revoke_key(&named("shop")).await.unwrap().unwrap();
    assert_eq!(revoked.id, third.id);
    let never = make(store, &reader("never")).await;
    let done = store.rotate_key(&named("never"), &rotation(None, HOUR)).await.unwrap();
    let Rotated::Done { new, old } = done else { panic!("{done:?}") };
    assert_eq!((new.expires_at, old.id), (None, never.id));
    assert!(old.expires_at.is_some());
}

async fn only_a_key_that_goes_on_is_rotated(bench: Bench) {
    let store = &*bench.store;
    let first = make(store, &reader("shop")).await;
    let turn = || rotation(None, HOUR);
    let unknown = store.rotate_key(&named("nobody"), &turn()).await.unwrap();
    assert_eq!(unknown, Rotated::Unknown);
    store.rotate_key(&named("shop"), &turn()).await.unwrap();
    let again = store.rotate_key(&KeyRef::Id(first.id), &turn()).await.unwrap();
    assert!(matches!(again, Rotated::Replaced(ref key) if key.id == first.id), "{again:?}");
    store.revoke_key(&named("shop")).await.unwrap();
    let revoked = store.rotate_key(&named("shop"), &turn()).await.unwrap();
    assert!(matches!(revoked, Rotated::Revoked(_)), "{revoked:?}");
    assert_eq!(store.keys(true).await.unwrap().len(), 2);
    let raw = bench.raw().await;
    for (change, words) in [
        ("replaced_by = NULL", "rotated once"),
        ("expires_at = NULL", "never ends later"),
        ("networks = '10.0.0.0/8'", "never changes"),
    ] {
        let refused = raw.attempt(&format!("UPDATE api_key SET {change}")).await.unwrap_err();
        assert!(refused.contains(words), "{change}: {refused}");
    }
}

/// The server that made it is gone, and the clock of this one is an hour behind.
async fn hole_44_a_key_that_was_made_by_a_faster_clock_is_rotated(bench: Bench) {
    let store = &*bench.store;
    make(store, &reader("shop")).await;
    let raw = bench.raw().await;
    raw.execute(match bench.database.is_postgres() {
        true => "UPDATE api_key SET created_at = created_at + interval '1 hour'",
        false => "UPDATE api_key SET created_at = created_at + 3600000000",
    })
    .await;
    let done = store.rotate_key(&named("shop"), &rotation(None, Duration::ZERO)).await.unwrap();
    let Rotated::Done { old, .. } = done else { panic!("{done:?}") };
    assert!(old.expires_at.unwrap() > old.created_at, "{old:?}");
}

async fn rotations_at_one_time_make_one_key(bench: Bench) {
    make(&*bench.store, &reader("shop")).await;
    let stores: Vec<_> = (0..4).map(|_| bench.second()).collect();
    let key = named("shop");
    let first = bench.store.keys(false).await.unwrap()[0].id;
    let turns: Vec<_> = stores.iter().map(|_| rotation(None, HOUR)).collect();
    let by_id = KeyRef::Id(first);
    let rotated = stores.iter().zip(&turns).map(|(store, turn)| store.rotate_key(&by_id, turn));
    let rotated = futures::future::join_all(rotated).await;
    let done = rotated.iter().filter(|one| matches!(one, Ok(Rotated::Done { .. }))).count();
    assert_eq!(done, 1, "{rotated:?}");
    assert_eq!(bench.store.keys(true).await.unwrap().len(), 2);
    assert!(bench.store.revoke_key(&key).await.unwrap().is_some());
}

async fn the_last_use_of_a_key_is_noted(bench: Bench) {
    let store = &*bench.store;
    let (one, other) = (make(store, &reader("one")).await, make(store, &reader("other")).await);
    let last = async |id: KeyId| {
        let keys = store.keys(true).await.unwrap();
        keys.into_iter().find(|key| key.id == id).unwrap().last_used_at
    };
    assert_eq!((last(one.id).await, last(other.id).await), (None, None));
    store.note_key_use(&[(one.id, HOUR), (KeyId::fresh(), HOUR)]).await.unwrap();
    let before = last(one.id).await.unwrap();
    assert!(before < one.created_at, "an hour ago");
    store.note_key_use(&[(one.id, Duration::ZERO)]).await.unwrap();
    let now = last(one.id).await.unwrap();
    assert!(now > before);
    store.note_key_use(&[(one.id, 2 * HOUR)]).await.unwrap();
    assert_eq!(last(one.id).await, Some(now), "it does not go back");
    store.note_key_use(&[(one.id, HOUR), (other.id, HOUR)]).await.unwrap();
    let first = last(other.id).await.unwrap();
    bench.second().note_key_use(&[(other.id, HOUR - Duration::from_secs(30))]).await.unwrap();
    assert_eq!(last(other.id).await, Some(first), "another node has just written it");
    bench.second().note_key_use(&[(other.id, HOUR - Duration::from_secs(300))]).await.unwrap();
    assert!(last(other.id).await.unwrap() > first, "that is minutes ago");
}

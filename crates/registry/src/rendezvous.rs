//! Which of several a name belongs to, the same on every instance.

/// FNV-1a with a finish, so that names that differ in their last letter differ in every bit. Written
/// out because it must be the same in every process and every version.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    let hash = bytes
        .iter()
        .fold(start, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    mixed(hash)
}

/// Spreads a number over all bits.
pub(crate) fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The one among these that a name belongs to; if one goes, only its own names move.
pub(crate) fn choose<'a, T: AsRef<str>>(
    name: &str,
    among: impl IntoIterator<Item = &'a T>,
) -> Option<&'a T> {
    let name = hash(name.as_bytes());
    among.into_iter().max_by_key(|one: &&'a T| {
        let one: &'a str = T::as_ref(*one);
        (mixed(name ^ hash(one.as_bytes()).rotate_left(17)), one)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spread_and_stay_when_another_goes() {
        let all = ["a", "b", "c", "d"];
        let mut counts = [0; 4];
        for name in (0..4000).map(|n| n.to_string()) {
            let chosen = *choose(&name, &all).unwrap();
            counts[all.iter().position(|one| *one == chosen).unwrap()] += 1;
            let without_b = *choose(&name, &["a", "c", "d"]).unwrap();
            assert!(chosen == "b" || chosen == without_b, "{name}");
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
        assert_eq!(choose::<&str>("x", &[]), None);
    }
}

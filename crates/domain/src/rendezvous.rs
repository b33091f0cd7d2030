//! Which node a lane had best be held by.
//!
//! Rendezvous hashing: every node gives every lane a number, and the highest one wins. All who know
//! the same nodes agree without asking each other. A node that comes takes lanes from all others
//! and none move between those; a node that goes leaves its lanes to all others alike.

use crate::{Lane, NodeId};

/// The node that gives the lane the highest number; `None` where there are no nodes.
pub fn preferred<'n>(
    lane: Lane,
    nodes: impl IntoIterator<Item = &'n NodeId>,
) -> Option<&'n NodeId> {
    // Equal numbers are all but impossible, and then the name decides, so that all agree.
    nodes.into_iter().max_by_key(|node| (score(lane, node), &node.0))
}

/// The number that a node gives a lane: the same on every machine and in every version.
fn score(lane: Lane, node: &NodeId) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let lane = lane.chain.get().to_be_bytes().into_iter().chain(lane.signer.into_array());
    // Lanes have a fixed length, so name and lane cannot run into each other.
    let bytes = lane.chain(node.0.bytes());
    mix(bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)))
}

/// FNV-1a leaves the last bytes in the low bits, where they decide nothing; this spreads them
/// (the last step of MurmurHash3).
fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Address, ChainId};

    fn lane(number: u32) -> Lane {
        let mut address = [0; 20];
        address[16..].copy_from_slice(&number.to_be_bytes());
        Lane::new(ChainId::new(1).unwrap(), Address::from(address))
    }

    fn nodes(names: &[String]) -> Vec<NodeId> {
        names.iter().cloned().map(NodeId).collect()
    }

    /// Fixed for all time: nodes of two versions must agree.
    #[test]
    fn the_hash_never_changes() {
        let nodes = nodes(&["a".into(), "b".into(), "c".into()]);
        let chosen: String =
            (0..16).map(|n| preferred(lane(n), &nodes).unwrap().0.as_str()).collect();
        assert_eq!(chosen, "bbccacbbbcbabbbc");
    }

    #[test]
    fn without_nodes_there_is_no_preference() {
        assert_eq!(preferred(lane(1), []), None);
    }

    proptest! {
        /// The order in which the nodes are known does not matter.
        #[test]
        fn all_agree(
            names in proptest::collection::hash_set("[a-z0-9-]{1,12}", 1..8), number: u32
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let (forth, mut back) = (nodes(&names), nodes(&names));
            back.reverse();
            prop_assert_eq!(preferred(lane(number), &forth), preferred(lane(number), &back));
        }

        /// A node that comes takes its share of the lanes, about as many as every other one has
        /// then, and no lane moves between the others.
        #[test]
        fn a_node_that_comes_takes_its_share_and_nothing_else_moves(
            names in proptest::collection::hash_set("[a-z0-9-]{1,12}", 2..9)
        ) {
            const LANES: u32 = 1000;
            let after = nodes(&names.into_iter().collect::<Vec<_>>());
            let (new, before) = after.split_first().unwrap();
            let mut moved = 0;
            for number in 0..LANES {
                let then = preferred(lane(number), before);
                let now = preferred(lane(number), &after);
                if now == Some(new) {
                    moved += 1;
                } else {
                    prop_assert_eq!(then, now);
                }
            }
            let share = LANES / after.len() as u32;
            // Chance alone stays within this by far.
            prop_assert!((share / 2..=share * 3 / 2).contains(&moved), "{} of {}", moved, share);
        }
    }
}

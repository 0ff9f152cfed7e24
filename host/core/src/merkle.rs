//! A Merkle tree over the entries of a batch (RFC 6962, section 2.1): one hash stands for all of
//! them, and a short path shows that an entry is among them.

use sha2::{Digest as _, Sha256};

/// A sha256.
pub type Hash = [u8; 32];

/// Keep an entry from being taken for two hashes, and the other way round.
const LEAF: [u8; 1] = [0];
const NODE: [u8; 1] = [1];

/// Returns the hash of one entry.
pub fn leaf(entry: &[u8]) -> Hash {
    hash(&[&LEAF, entry])
}

/// Returns the hash that stands for `leaves`, in their order.
pub fn root(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => hash(&[]),
        [only] => *only,
        _ => {
            let (left, right) = leaves.split_at(half(leaves.len()));
            node(&root(left), &root(right))
        }
    }
}

/// Returns what leads from the leaf at `index` to the root, its neighbour first; none where there is
/// no such leaf.
pub fn path(leaves: &[Hash], index: usize) -> Option<Vec<Hash>> {
    if leaves.len() <= 1 {
        return (index < leaves.len()).then(Vec::new);
    }
    let (left, right) = leaves.split_at(half(leaves.len()));
    let (own, at, other) = match index.checked_sub(left.len()) {
        None => (left, index, right),
        Some(at) => (right, at, left),
    };
    let mut path = path(own, at)?;
    path.push(root(other));
    Some(path)
}

/// Returns the root that a path leads to from the leaf at `index` of `count`; none where it is no
/// path of such a tree.
pub fn climb(leaf: Hash, index: u64, count: u64, path: &[Hash]) -> Option<Hash> {
    if count <= 1 {
        return (index < count && path.is_empty()).then_some(leaf);
    }
    let (other, below) = path.split_last()?;
    let left = 1 << (count - 1).ilog2();
    match index.checked_sub(left) {
        None => Some(node(&climb(leaf, index, left, below)?, other)),
        Some(index) => Some(node(other, &climb(leaf, index, count - left, below)?)),
    }
}

/// The largest power of two below `count`.
fn half(count: usize) -> usize {
    1 << (count - 1).ilog2()
}

fn node(left: &Hash, right: &Hash) -> Hash {
    hash(&[&NODE, left, right])
}

fn hash(parts: &[&[u8]]) -> Hash {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::hex;

    fn leaves(count: usize) -> Vec<Hash> {
        (0..count).map(|entry| leaf(entry.to_string().as_bytes())).collect()
    }

    /// The tree of seven entries that RFC 6962 draws, built by hand.
    #[test]
    fn the_tree_is_the_one_of_the_rfc() {
        assert_eq!(
            hex(&root(&[])),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(
            hex(&leaf(b"")),
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
        );
        let d = leaves(7);
        let (g, h, i) = (node(&d[0], &d[1]), node(&d[2], &d[3]), node(&d[4], &d[5]));
        assert_eq!(root(&d), node(&node(&g, &h), &node(&i, &d[6])));
        assert_eq!(path(&d, 0), Some(vec![d[1], h, node(&i, &d[6])]));
        assert_eq!(path(&d, 6), Some(vec![i, node(&g, &h)]));
    }

    #[test]
    fn a_path_leads_from_its_own_leaf_to_the_root_and_from_no_other() {
        for count in 1..40 {
            let leaves = leaves(count);
            for index in 0..count {
                let path = path(&leaves, index).unwrap();
                let to = |leaf, index| climb(leaf, index as u64, count as u64, &path);
                assert_eq!(to(leaves[index], index), Some(root(&leaves)));
                assert_ne!(to(leaf(b"another"), index), Some(root(&leaves)));
                for other in (0..count).filter(|other| *other != index) {
                    assert_ne!(
                        to(leaves[index], other),
                        Some(root(&leaves)),
                        "{count} {index} {other}"
                    );
                }
            }
            assert_eq!(path(&leaves, count), None);
        }
        assert_eq!(path(&[], 0), None);
        assert_eq!(climb(leaf(b""), u64::MAX, u64::MAX, &[]), None);
        assert_eq!(climb(leaf(b""), 0, 1, &[leaf(b"")]), None);
    }
}

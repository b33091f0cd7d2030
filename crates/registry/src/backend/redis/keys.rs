//! The keys in Redis. What belongs to one node has one hash tag, so that a script that touches it is
//! at home on one node of a cluster.

use crate::backend::News;
use crate::{ConfigName, NodeId, PoolId};

#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    fn of_node(&self, kind: &str, id: &NodeId) -> String {
        format!("{}:{kind}:{{node:{id}}}", self.prefix)
    }

    pub(super) fn version(&self, id: &NodeId) -> String {
        self.of_node("ver", id)
    }

    pub(super) fn node(&self, id: &NodeId) -> String {
        self.of_node("node", id)
    }

    pub(super) fn capacity(&self, id: &NodeId) -> String {
        self.of_node("cap", id)
    }

    /// There while this start of the node lives.
    pub(super) fn live(&self, id: &NodeId, incarnation: u64) -> String {
        format!("{}:{incarnation}", self.of_node("live", id))
    }

    /// Everything of a node, in the order that the scripts have it.
    pub(super) fn all(&self, id: &NodeId) -> [String; 6] {
        [
            self.version(id),
            self.node(id),
            self.capacity(id),
            self.of_node("reserved", id),
            self.of_node("running", id),
            format!("{}:", self.of_node("live", id)),
        ]
    }

    /// Names by last heartbeat: of a pool, or of all nodes.
    pub(super) fn index(&self, pool: Option<&PoolId>) -> String {
        match pool {
            Some(pool) => format!("{}:pool:{{pool:{pool}}}:members", self.prefix),
            None => format!("{}:nodes:online", self.prefix),
        }
    }

    pub(super) fn session(&self, session: &str) -> String {
        format!("{}:session:{session}", self.prefix)
    }

    pub(super) fn config(&self, name: &ConfigName) -> String {
        format!("{}:config:{{config:{name}}}", self.prefix)
    }

    /// A key that there is not, at home anywhere in a cluster.
    pub(super) fn probe(&self, number: u64) -> String {
        format!("{}:probe:{number}", self.prefix)
    }

    /// What keys begin with whose changes instances want to know of.
    pub(super) fn tracked(&self) -> Vec<String> {
        ["ver", "live", "config"].map(|kind| format!("{}:{kind}:", self.prefix)).into()
    }

    pub(super) fn channel(&self) -> String {
        format!("{}:news", self.prefix)
    }

    /// What a changed key is about; also what is published, which is the key.
    pub(super) fn news(&self, key: &str) -> Option<News> {
        let key = key.strip_prefix(&self.prefix)?;
        let inside = |kind: &str| key.strip_prefix(kind)?.strip_suffix('}');
        if let Some(id) = inside(":ver:{node:") {
            return NodeId::new(id).ok().map(News::Node);
        }
        if let Some((id, _incarnation)) =
            key.strip_prefix(":live:{node:").and_then(|key| key.rsplit_once("}:"))
        {
            return NodeId::new(id).ok().map(News::Node);
        }
        ConfigName::new(inside(":config:{config:")?).ok().map(News::Config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_18d_what_belongs_to_a_node_has_one_hash_tag() {
        let keys = Keys::new("stile");
        let id = NodeId::new("speech-1:80").unwrap();
        for key in keys.all(&id) {
            let tag = key.split_once('{').unwrap().1.split_once('}').unwrap().0;
            assert_eq!(tag, "node:speech-1:80", "{key}");
        }
    }

    #[test]
    fn changed_keys_are_understood() {
        let keys = Keys::new("a:b");
        let id = NodeId::new("n:1").unwrap();
        let name = ConfigName::new("c").unwrap();
        assert_eq!(keys.news(&keys.version(&id)), Some(News::Node(id.clone())));
        assert_eq!(keys.news(&keys.config(&name)), Some(News::Config(name)));
        assert_eq!(keys.news(&keys.live(&id, 7)), Some(News::Node(id.clone())));
        assert_eq!(keys.news(&keys.node(&id)), None);
        assert_eq!(keys.news("other:ver:{node:n}"), None);
        let config = keys.config(&ConfigName::new("c").unwrap());
        for key in [keys.version(&id), keys.live(&id, 7), config] {
            assert!(keys.tracked().iter().any(|prefix| key.starts_with(prefix)), "{key}");
        }
    }
}

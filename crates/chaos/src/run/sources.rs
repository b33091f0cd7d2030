//! Whom nodes learn of each other from, as their metrics show it.

/// Looks at nodes' metrics, by whom they learned of each other from at that moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sources {
    /// The registry.
    pub registry: u64,
    /// What the registry had said before it stopped to answer.
    pub last_known: u64,
    /// The database.
    pub database: u64,
    /// How often it was another one than at the look before. What came and went in between was not
    /// seen.
    pub changes: u64,
}

impl Sources {
    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            registry: self.registry + other.registry,
            last_known: self.last_known + other.last_known,
            database: self.database + other.database,
            changes: self.changes + other.changes,
        }
    }
}

/// The looks at one node.
#[derive(Debug, Default)]
pub(super) struct Looks {
    pub(super) sources: Sources,
    /// What the last look showed, and of which start.
    last: Option<(u64, u8)>,
}

const METRIC: &str = "stile_membership_source ";

impl Looks {
    /// Takes note of a page of a start's metrics.
    pub(super) fn add(&mut self, start: u64, page: &str) {
        let told = page.lines().find_map(|line| line.strip_prefix(METRIC)?.parse::<u8>().ok());
        let Some(told) = told else { return };
        match told {
            0 => self.sources.registry += 1,
            1 => self.sources.last_known += 1,
            _ => self.sources.database += 1,
        }
        // A process that was started anew begins with the database.
        let changed = self.last.is_some_and(|(of, before)| of == start && before != told);
        self.sources.changes += u64::from(changed);
        self.last = Some((start, told));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_those_of_one_start() {
        let mut looks = Looks::default();
        for (start, told) in [(1, 2), (1, 0), (1, 0), (1, 1), (2, 2), (2, 0)] {
            looks.add(start, &format!("# HELP\nother 7\nstile_membership_source {told}\n"));
        }
        looks.add(2, "nothing of it");
        let seen = Sources { registry: 3, last_known: 1, database: 2, changes: 3 };
        assert_eq!(looks.sources, seen);
    }
}

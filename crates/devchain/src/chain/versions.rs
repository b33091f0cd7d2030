//! A value at every height.

/// A value at every height: what it was set to, at what heights, ascending.
#[derive(Debug, Clone)]
pub(crate) struct Versions<T>(Vec<(u64, T)>);

impl<T> Default for Versions<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy> Versions<T> {
    /// The value after the block at this height; `None` if it was not set by then.
    pub(crate) fn at(&self, height: u64) -> Option<T> {
        match self.0.last() {
            None => None,
            // Nearly all reads are of the newest.
            Some((set_at, value)) if *set_at <= height => Some(*value),
            Some(_) => {
                let later = self.0.partition_point(|(set_at, _)| *set_at <= height);
                self.0[..later].last().map(|(_, value)| *value)
            }
        }
    }

    /// Sets the value from this height on, which is the last one it was set at or a later one.
    pub(crate) fn set(&mut self, height: u64, value: T) {
        match self.0.last_mut() {
            Some(last) if last.0 == height => last.1 = value,
            _ => self.0.push((height, value)),
        }
    }

    /// Forgets everything above this height; false if nothing is left.
    pub(crate) fn cut(&mut self, height: u64) -> bool {
        let kept = self.0.partition_point(|(set_at, _)| *set_at <= height);
        self.0.truncate(kept);
        !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_height_has_the_value_that_was_set_last() {
        let mut versions = Versions::default();
        assert_eq!(versions.at(9), None);
        for (height, value) in [(2, 'a'), (5, 'x'), (5, 'b'), (7, 'c')] {
            versions.set(height, value);
        }
        let at = |versions: &Versions<char>| (0..9).map(|h| versions.at(h)).collect::<Vec<_>>();
        let none = None;
        let [a, b, c] = ['a', 'b', 'c'].map(Some);
        assert_eq!(at(&versions), [none, none, a, a, a, b, b, c, c]);
        assert!(versions.cut(5));
        assert_eq!(at(&versions), [none, none, a, a, a, b, b, b, b]);
        assert!(!versions.cut(1));
        assert_eq!(at(&versions), [none; 9]);
    }
}

//! A system user to run as, for programs that refuse to run as root.

use std::path::Path;

/// A user and its first group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) user_id: u32,
    pub(crate) group_id: u32,
}

impl Account {
    /// The user `postgres` if there is one, else `nobody`. Panics on a system that has neither.
    pub(crate) fn unprivileged() -> Self {
        let passwd = std::fs::read_to_string("/etc/passwd").expect("read /etc/passwd");
        ["postgres", "nobody"]
            .iter()
            .find_map(|name| Self::find(&passwd, name))
            .expect("a user postgres or nobody in /etc/passwd, since PostgreSQL refuses root")
    }

    fn find(passwd: &str, name: &str) -> Option<Self> {
        passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next()? == name).then_some(())?;
            let user_id = fields.nth(1)?.parse().ok()?;
            let group_id = fields.next()?.parse().ok()?;
            Some(Self { user_id, group_id })
        })
    }

    /// Gives a directory to this user.
    pub(crate) fn take_over(self, directory: &Path) {
        std::os::unix::fs::chown(directory, Some(self.user_id), Some(self.group_id))
            .expect("give the directory to the user that PostgreSQL runs as");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgres-admin:x:7:8::/:/bin/sh\n\
                      postgres:x:101:104:PostgreSQL,,,:/var/lib/postgresql:/bin/bash\n";
        let found = Account::find(passwd, "postgres");
        assert_eq!(found, Some(Account { user_id: 101, group_id: 104 }));
        assert_eq!(Account::find(passwd, "nobody"), None);
    }
}

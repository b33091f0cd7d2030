//! Which account each of V1's signers is. V1 takes any text.

use std::collections::BTreeMap;
use std::path::Path;

use stile_domain::{Address, ChainId, Lane, Percent, parse_address};

use crate::cli::Failure;

/// One of V1's signers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Account {
    /// As V1 writes it.
    pub(in crate::cli) signer: String,
    /// The lane it is, or why that is not known.
    pub(in crate::cli) lane: Result<Lane, String>,
}

/// All of them.
#[derive(Debug)]
pub(in crate::cli) struct Accounts(Vec<Account>);

impl Accounts {
    pub(in crate::cli) fn of(
        signers: Vec<String>,
        map: Option<&Path>,
        chain: ChainId,
    ) -> Result<Self, Failure> {
        let map = match map {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
                read(&text).map_err(|error| format!("{}: {error}", path.display()))?
            }
            None => BTreeMap::new(),
        };
        Ok(Self(resolve(signers, &map, chain)))
    }

    pub(in crate::cli) fn iter(&self) -> impl Iterator<Item = &Account> {
        self.0.iter()
    }

    /// The lanes of those that are known.
    pub(in crate::cli) fn lanes(&self) -> Vec<Lane> {
        self.0.iter().filter_map(|account| account.lane.clone().ok()).collect()
    }
}

/// Finds each signer's account. Two that are one account cannot both be moved: which of them is right,
/// where they differ, only a person knows.
fn resolve(signers: Vec<String>, map: &BTreeMap<String, Address>, chain: ChainId) -> Vec<Account> {
    let found: Vec<(String, Option<Address>)> = signers
        .into_iter()
        .map(|signer| {
            let address = map.get(&signer).copied().or_else(|| parse_address(signer.trim()).ok());
            (signer, address)
        })
        .collect();
    let mut names: BTreeMap<Address, Vec<&str>> = BTreeMap::new();
    for (signer, address) in &found {
        if let Some(address) = address {
            names.entry(*address).or_default().push(signer);
        }
    }
    let account = |(signer, address): &(String, Option<Address>)| {
        let lane = match address {
            None => {
                Err("V1 does not call it by its address: add a line for it to the file of --map"
                    .to_owned())
            }
            Some(address) => match &names[address][..] {
                [_] => Ok(Lane::new(chain, *address)),
                several => Err(format!(
                    "V1 has one account under {} names ({}): merge their rows in V1 first",
                    several.len(),
                    several.join(", ")
                )),
            },
        };
        Account { signer: signer.clone(), lane }
    };
    found.iter().map(account).collect()
}

/// Reads `name = address` lines; `#` begins a comment.
fn read(text: &str) -> Result<BTreeMap<String, Address>, String> {
    let mut map = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |why: String| format!("line {}: {why}", number + 1);
        let (name, address) = line
            .rsplit_once('=')
            .ok_or_else(|| at("must be `name = 0x…`, the name as V1 writes it".to_owned()))?;
        let name = name.trim().trim_matches('"').to_owned();
        let address = address.trim().trim_matches('"');
        let address = parse_address(address).map_err(|error| at(format!("{address} {error}")))?;
        if map.insert(name.clone(), address).is_some() {
            return Err(at(format!("{name} is there twice")));
        }
    }
    Ok(map)
}

/// Which of them to move.
#[derive(Debug)]
pub(in crate::cli) struct Choice {
    names: Vec<String>,
    percent: Option<Percent>,
}

impl Choice {
    pub(in crate::cli) fn of(
        names: &[String],
        percent: Option<Percent>,
        accounts: &Accounts,
    ) -> Result<Self, Failure> {
        let choice = Self { names: names.to_vec(), percent };
        for name in names {
            if !accounts.iter().any(|account| is_called(account, name)) {
                return Err(format!("V1 knows no signer {name}").into());
            }
        }
        Ok(choice)
    }

    /// Whether a signer is meant. One whose account is not known is meant unless others are named: it is
    /// to be reported.
    pub(in crate::cli) fn includes(&self, account: &Account) -> bool {
        let named = self.names.is_empty() || self.names.iter().any(|name| is_called(account, name));
        let share = match (&account.lane, self.percent) {
            (Ok(lane), Some(percent)) => percent.includes(lane.signer),
            _ => true,
        };
        named && share
    }
}

fn is_called(account: &Account, name: &str) -> bool {
    let by_address =
        || account.lane.as_ref().is_ok_and(|lane| parse_address(name) == Ok(lane.signer));
    account.signer == name || by_address()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

    fn accounts(signers: &[&str], map: &str) -> Accounts {
        let signers = signers.iter().map(|signer| (*signer).to_owned()).collect();
        Accounts(resolve(signers, &read(map).unwrap(), ChainId::new(1).unwrap()))
    }

    #[test]
    fn a_signer_is_found_by_its_address_or_by_the_map() {
        let map = format!("# who is who\n\npayouts, east = {ADDRESS}\n");
        let known =
            accounts(&["payouts, east", "0x00000000000000000000000000000000000000aa", "hot"], &map);
        let lanes: Vec<bool> = known.iter().map(|account| account.lane.is_ok()).collect();
        assert_eq!(lanes, [true, true, false]);
        assert_eq!(known.lanes()[0].signer, parse_address(ADDRESS).unwrap());
    }

    #[test]
    fn two_names_of_one_account_are_left_to_a_person() {
        let known =
            accounts(&[ADDRESS, &ADDRESS.to_lowercase(), "hot"], &format!("hot = {ADDRESS}"));
        assert!(
            known
                .iter()
                .all(|account| account.lane.as_ref().is_err_and(|why| why.contains("3 names")))
        );
    }

    #[test]
    fn a_map_says_where_it_is_wrong() {
        assert!(read("hot").unwrap_err().starts_with("line 1"));
        assert!(read(&format!("a = {ADDRESS}\na = {ADDRESS}")).unwrap_err().contains("twice"));
        assert!(read("\nhot = 0x12").unwrap_err().starts_with("line 2: 0x12"));
    }

    #[test]
    fn signers_are_chosen_by_name_by_address_and_by_share() {
        let known = accounts(&["hot", ADDRESS], "hot = 0x00000000000000000000000000000000000000aa");
        let chosen = |names: &[&str], percent: Option<u8>| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let percent = percent.map(|percent| Percent::new(percent).unwrap());
            let choice = Choice::of(&names, percent, &known)?;
            Ok::<_, Failure>(known.iter().filter(|it| choice.includes(it)).count())
        };
        assert_eq!(chosen(&[], None).unwrap(), 2);
        assert_eq!(chosen(&["hot"], None).unwrap(), 1);
        assert_eq!(chosen(&[&ADDRESS.to_lowercase()], None).unwrap(), 1);
        assert_eq!(chosen(&[], Some(0)).unwrap(), 0);
        assert_eq!(chosen(&[], Some(100)).unwrap(), 2);
        assert!(chosen(&["cold"], None).is_err());
    }
}

//! What nodes tell each other, as text: `w31337@0xab…` for work on a lane, `h31337@0xab…` for a
//! lane that was handed over, as many of them in one notification as it takes.

use stile_domain::{ChainId, Lane, parse_address};

use crate::LaneNews;

/// PostgreSQL takes notifications of less than 8000 bytes.
const LONGEST: usize = 7900;

/// As few texts as it takes.
pub(super) fn texts(news: &[LaneNews]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for news in news {
        let word = word(*news);
        match texts.last_mut().filter(|text| text.len() + 1 + word.len() <= LONGEST) {
            Some(text) => {
                text.push(' ');
                text.push_str(&word);
            }
            None => texts.push(word),
        }
    }
    texts
}

fn word(news: LaneNews) -> String {
    let (kind, lane) = match news {
        LaneNews::Work(lane) => ('w', lane),
        LaneNews::HandedOver(lane) => ('h', lane),
    };
    format!("{kind}{}@{:#x}", lane.chain, lane.signer)
}

/// What a text says. Words that another version may have made up are left out.
pub(super) fn read(text: &str) -> Vec<LaneNews> {
    text.split(' ').filter_map(read_word).collect()
}

fn read_word(word: &str) -> Option<LaneNews> {
    let (kind, rest) = word.split_at_checked(1)?;
    let (chain, signer) = rest.split_once('@')?;
    let chain = ChainId::new(chain.parse().ok()?).ok()?;
    let lane = Lane::new(chain, parse_address(signer).ok()?);
    match kind {
        "w" => Some(LaneNews::Work(lane)),
        "h" => Some(LaneNews::HandedOver(lane)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::Address;

    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let lane = |n: u16| {
            let mut bytes = [0xab; 20];
            bytes[18..].copy_from_slice(&n.to_be_bytes());
            Lane::new(ChainId::new(31337).unwrap(), Address::from(bytes))
        };
        let mut news: Vec<LaneNews> = (0..1000).map(|n| LaneNews::Work(lane(n))).collect();
        news.push(LaneNews::HandedOver(lane(7)));
        let texts = texts(&news);
        assert!(texts.len() < 10, "{} texts", texts.len());
        assert!(texts.iter().all(|text| text.len() < 8000));
        let heard: Vec<LaneNews> = texts.iter().flat_map(|text| read(text)).collect();
        assert_eq!(heard, news);
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        assert_eq!(read(""), []);
        assert_eq!(read("x1@0xabababababababababababababababababababab w0@1 é w1"), []);
    }
}

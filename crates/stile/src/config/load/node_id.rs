//! The name of the node, with its `${NAME}` parts filled in.

use super::Variables;

const LONGEST_BYTES: usize = 128;

/// Replaces each `${NAME}` by the variable of that name and checks the outcome.
///
/// Says what is wrong without repeating the outcome: it came from the environment, and the wrong
/// variable may hold anything.
pub(super) fn expand(text: &str, variables: &Variables) -> Result<String, String> {
    let mut id = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            return Err("has a ${ without its }".to_owned());
        };
        let Some(value) = variables.get(name) else {
            return Err(format!("the environment variable {name:?} is not set"));
        };
        id.push_str(before);
        id.push_str(value);
        rest = after;
    }
    id.push_str(rest);
    if is_node_id(&id) {
        Ok(id)
    } else {
        Err(format!(
            "must be 1 to {LONGEST_BYTES} letters, digits, dots, colons, hyphens and underscores"
        ))
    }
}

/// Labels of logs and metrics and a column of the store: kept to what needs no quoting anywhere.
fn is_node_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".:-_".contains(&byte);
    (1..=LONGEST_BYTES).contains(&id.len()) && id.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::{Variables, expand};

    #[test]
    fn fills_in_variables() {
        let variables = Variables::from([
            ("POD".to_owned(), "pod-3".to_owned()),
            ("ZONE".to_owned(), "b".to_owned()),
        ]);
        assert_eq!(expand("stile-a", &variables), Ok("stile-a".to_owned()));
        assert_eq!(expand("${POD}.${ZONE}:1", &variables), Ok("pod-3.b:1".to_owned()));
    }

    #[test]
    fn says_what_is_wrong() {
        let variables = Variables::from([("SPACED".to_owned(), "a b".to_owned())]);
        for (text, why) in [
            ("${POD}", "the environment variable \"POD\" is not set"),
            ("${POD", "has a ${ without its }"),
            (
                "${SPACED}",
                "must be 1 to 128 letters, digits, dots, colons, hyphens and underscores",
            ),
        ] {
            assert_eq!(expand(text, &variables), Err(why.to_owned()));
        }
    }
}

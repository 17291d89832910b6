//! Parses files such as `.env` as far as koze needs to know what wrangler reads from them.

/// Returns the raw value of a variable, including quotes and anything after them. The last assignment wins.
pub fn given<'t>(text: &'t str, wanted: &str) -> Option<&'t str> {
    let of = |line: &'t str| {
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=')?;
        (name.trim() == wanted).then(|| value.trim())
    };
    text.lines().filter_map(of).next_back()
}

/// Returns the value without its quotes, or `None` if only wrangler could tell: the value refers to other variables or
/// spans several lines.
pub fn plain(given: &str) -> Option<&str> {
    let value = match given.chars().next().filter(|first| "'\"`".contains(*first)) {
        Some(quote) => given[1..].split_once(quote)?.0,
        None => given.split('#').next().unwrap_or_default().trim_end(),
    };
    (!value.contains(['$', '\\'])).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_by_name() {
        for (text, expected) in [
            ("A=1\n B = x y \n", Some("x y")),
            ("export B=1\r\n", Some("1")),
            ("B=1\nB=2", Some("2")),
            ("B=", Some("")),
            ("#B=1\nMY_B=1\nB_X=1\nB", None),
        ] {
            assert_eq!(given(text, "B"), expected, "{text}");
        }
    }

    #[test]
    fn plain_values_are_unquoted() {
        for (given, expected) in [
            ("staging", Some("staging")),
            ("staging # where we try", Some("staging")),
            ("\"a b\" # c", Some("a b")),
            ("'a#b'", Some("a#b")),
            ("`a`", Some("a")),
            ("", Some("")),
            ("''", Some("")),
            ("$STAGE", None),
            ("\"on", None),
            ("'a\\'b'", None),
        ] {
            assert_eq!(plain(given), expected, "{given}");
        }
    }
}

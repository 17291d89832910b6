//! Files such as `.env`, as far as koze has to know what wrangler finds in them.

/// What a file of such lines gives a variable: as it stands there, with its quotes and what is behind them. The last line
/// counts.
pub fn given<'t>(text: &'t str, wanted: &str) -> Option<&'t str> {
    let of = |line: &'t str| {
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=')?;
        (name.trim() == wanted).then(|| value.trim())
    };
    text.lines().filter_map(of).next_back()
}

/// The value that is meant; nothing where only wrangler could tell, for it depends on others or goes on elsewhere.
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
    fn lines_are_found_by_their_names() {
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
    fn values_are_what_is_meant() {
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

//! `printf`, as far as the messages and the dates of the engine need it.

/// The arguments of a variadic function.
pub(crate) trait Arguments {
    fn int(&mut self) -> i32;
    fn long_long(&mut self) -> i64;
    /// Returns a text up to its zero byte, but at most so many bytes.
    fn text(&mut self, limit: usize) -> &[u8];
}

/// How an argument is printed.
#[derive(Default)]
struct Specification {
    has_zeros: bool,
    has_sign: bool,
    width: usize,
    precision: Option<usize>,
    is_long_long: bool,
}

/// Formats arguments.
///
/// # Panics
/// If the format has a conversion that the engine does not use.
pub(crate) fn format(mut format: &[u8], arguments: &mut impl Arguments) -> Vec<u8> {
    let mut printed = Vec::new();
    while let Some(at) = format.iter().position(|byte| *byte == b'%') {
        printed.extend_from_slice(&format[..at]);
        let mut specification = Specification::default();
        let rest = specification.read(&format[at + 1..], arguments);
        let (conversion, rest) = rest.split_first().expect("a conversion");
        specification.print(*conversion, arguments, &mut printed);
        format = rest;
    }
    printed.extend_from_slice(format);
    printed
}

impl Specification {
    /// Reads what comes before the conversion. Returns the format from there on.
    fn read<'a>(&mut self, mut format: &'a [u8], arguments: &mut impl Arguments) -> &'a [u8] {
        while let [flag @ (b'0' | b'+'), rest @ ..] = format {
            self.has_zeros |= *flag == b'0';
            self.has_sign |= *flag == b'+';
            format = rest;
        }
        (self.width, format) = number(format, arguments);
        if let [b'.', rest @ ..] = format {
            let (precision, rest) = number(rest, arguments);
            (self.precision, format) = (Some(precision), rest);
        }
        if let [b'l', b'l', rest @ ..] = format {
            (self.is_long_long, format) = (true, rest);
        }
        format
    }

    fn print(&self, conversion: u8, arguments: &mut impl Arguments, printed: &mut Vec<u8>) {
        match conversion {
            b'%' => printed.push(b'%'),
            b'c' => printed.push(arguments.int().to_le_bytes()[0]),
            b's' => printed.extend_from_slice(arguments.text(self.precision.unwrap_or(usize::MAX))),
            b'd' => {
                let value = if self.is_long_long { arguments.long_long() } else { arguments.int().into() };
                let sign = if value < 0 {
                    "-"
                } else if self.has_sign {
                    "+"
                } else {
                    ""
                };
                self.pad(sign, &value.unsigned_abs().to_string(), printed);
            }
            b'u' => self.pad("", &self.unsigned(arguments).to_string(), printed),
            b'x' => self.pad("", &format!("{:x}", self.unsigned(arguments)), printed),
            _ => unreachable!("the engine does not use this conversion"),
        }
    }

    fn unsigned(&self, arguments: &mut impl Arguments) -> u64 {
        if self.is_long_long {
            arguments.long_long().cast_unsigned()
        } else {
            arguments.int().cast_unsigned().into()
        }
    }

    fn pad(&self, sign: &str, digits: &str, printed: &mut Vec<u8>) {
        let padding = self.width.saturating_sub(sign.len() + digits.len());
        let (spaces, zeros) = if self.has_zeros { (0, padding) } else { (padding, 0) };
        printed.resize(printed.len() + spaces, b' ');
        printed.extend_from_slice(sign.as_bytes());
        printed.resize(printed.len() + zeros, b'0');
        printed.extend_from_slice(digits.as_bytes());
    }
}

/// Reads a width or a precision, which may be an argument.
fn number<'a>(mut format: &'a [u8], arguments: &mut impl Arguments) -> (usize, &'a [u8]) {
    if let [b'*', rest @ ..] = format {
        return (usize::try_from(arguments.int()).unwrap_or_default(), rest);
    }
    let mut number = 0;
    while let [digit @ b'0'..=b'9', rest @ ..] = format {
        number = number * 10 + usize::from(digit - b'0');
        format = rest;
    }
    (number, format)
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Argument {
        Int(i32),
        LongLong(i64),
        Text(&'static str),
    }

    use Argument::{Int, LongLong, Text};

    impl Arguments for std::slice::Iter<'_, Argument> {
        fn int(&mut self) -> i32 {
            let Some(Int(int)) = self.next() else { panic!("no int") };
            *int
        }

        fn long_long(&mut self) -> i64 {
            let Some(LongLong(long_long)) = self.next() else { panic!("no long long") };
            *long_long
        }

        fn text(&mut self, limit: usize) -> &[u8] {
            let Some(Text(text)) = self.next() else { panic!("no text") };
            &text.as_bytes()[..text.len().min(limit)]
        }
    }

    #[test]
    fn what_the_engine_prints() {
        for (text, arguments, expected) in [
            ("", &[][..], ""),
            ("100 %%", &[], "100 %"),
            ("'%s' is %s", &[Text("a"), Text("")], "'a' is "),
            ("%.*s|%.3s|%.3s", &[Int(2), Text("abc"), Text("JanFeb"), Text("a")], "ab|Jan|a"),
            ("%c%cM", &[Int(b'x'.into()), Int(b'A'.into())], "xAM"),
            ("%d %d %u", &[Int(-5), Int(i32::MIN), Int(-1)], "-5 -2147483648 4294967295"),
            ("%02d:%02d.%03dZ", &[Int(7), Int(123), Int(4)], "07:123.004Z"),
            ("%0*d|%0*d|%04d", &[Int(4), Int(12), Int(5), Int(-12), Int(2026)], "0012|-0012|2026"),
            ("%+07d %+07d", &[Int(12345), Int(-1)], "+012345 -000001"),
            ("%3d|%1d", &[Int(5), Int(-55)], "  5|-55"),
            ("\\u%04x \\x%02x %x", &[Int(0xd8), Int(0xf), Int(-1)], "\\u00d8 \\x0f ffffffff"),
            ("%lld %llu", &[LongLong(i64::MIN), LongLong(-1)], "-9223372036854775808 18446744073709551615"),
        ] {
            let printed = format(text.as_bytes(), &mut arguments.iter());
            assert_eq!(String::from_utf8(printed).unwrap(), expected, "{text}");
        }
    }
}

//! `parseCSV`.

use csv_core::{ReadRecordResult, Reader};
use rquickjs::{Array, Ctx, Exception, Value};

/// Parses CSV. Returns its rows; with a header, each has as many fields as the first.
#[allow(clippy::needless_pass_by_value, reason = "the engine passes values")]
pub(crate) fn parse(ctx: Ctx<'_>, text: String, header: bool) -> rquickjs::Result<Value<'_>> {
    let rows = Array::new(ctx.clone())?;
    let mut records = Records::new(&text);
    let mut width = None;
    loop {
        let line = records.reader.line();
        let Some(record) = records.next() else { return Ok(rows.into_value()) };
        let first = *width.get_or_insert(record.len());
        if header && record.len() != first {
            let text = format!(
                "invalid CSV: line {line} has {} fields, but the first row has {first}",
                record.len()
            );
            return Err(Exception::throw_syntax(&ctx, &text));
        }
        let row = Array::new(ctx.clone())?;
        for (at, field) in record.into_iter().enumerate() {
            row.set(at, field)?;
        }
        rows.set(rows.len(), row)?;
    }
}

/// The records of a text.
struct Records<'a> {
    reader: Reader,
    input: &'a [u8],
    /// The fields of a record one after another, and where each ends.
    fields: Vec<u8>,
    ends: Vec<usize>,
}

impl<'a> Records<'a> {
    fn new(text: &'a str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Records { reader: Reader::new(), input: text.as_bytes(), fields: vec![0; 64], ends: vec![0; 8] }
    }

    /// Returns the fields of the next record.
    fn next(&mut self) -> Option<Vec<String>> {
        let (mut written, mut count) = (0, 0);
        loop {
            let (fields, ends) = (&mut self.fields[written..], &mut self.ends[count..]);
            let (result, read, more, ended) = self.reader.read_record(self.input, fields, ends);
            self.input = &self.input[read..];
            written += more;
            count += ended;
            match result {
                // The next call, without input, is the end.
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.fields.resize(2 * self.fields.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                ReadRecordResult::Record => break,
                ReadRecordResult::End => return None,
            }
        }
        let mut from = 0;
        let field = |end: &usize| {
            let field = &self.fields[from..*end];
            from = *end;
            // The text is divided at ASCII characters only.
            String::from_utf8_lossy(field).into_owned()
        };
        Some(self.ends[..count].iter().map(field).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::Records;

    #[test]
    fn fields_of_any_length_and_number_are_read() {
        let long = "ä".repeat(1000);
        let text = format!("a,\"{long}\"\n\n{},\r\n\"x\"\"y\"", ",".repeat(100));
        let mut records = Records::new(&text);
        assert_eq!(records.next().unwrap(), ["a", &long]);
        assert_eq!(records.next().unwrap(), vec![""; 102]);
        assert_eq!(records.next().unwrap(), ["x\"y"]);
        assert_eq!(records.next(), None);
        assert_eq!(records.next(), None);
    }
}

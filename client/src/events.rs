//! Server-sent events.

use std::io::{self, BufRead};

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ServerEvent {
    /// Its ID, if it has one.
    pub(crate) id: Option<String>,
    /// Its name.
    pub(crate) name: String,
    /// Its data.
    pub(crate) data: String,
}

/// Reads the next event. Returns `None` at the end of the stream; an event that was cut off is left out.
pub(crate) fn read_event(lines: &mut impl BufRead) -> io::Result<Option<ServerEvent>> {
    let mut event = ServerEvent::default();
    let mut line = String::new();
    loop {
        line.clear();
        lines.read_line(&mut line)?;
        let Some(text) = line.strip_suffix('\n') else { return Ok(None) };
        let text = text.strip_suffix('\r').unwrap_or(text);
        if text.is_empty() {
            if event != ServerEvent::default() {
                return Ok(Some(event));
            }
            continue;
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => event.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut event.name),
            "data" => {
                if !event.data.is_empty() {
                    event.data.push('\n');
                }
                event.data.push_str(value);
            }
            // A comment, whose field is empty, or a field for browsers.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_one_by_one() {
        let text = ":\n\nid: 7\nevent: stdout\ndata: {\"text\":\"a\"}\n\n:\n\ndata:b\r\ndata: c\r\n\r\nid: 8\ndata: cut";
        let mut lines = text.as_bytes();
        let event = |id: Option<&str>, name: &str, data: &str| {
            Some(ServerEvent { id: id.map(str::to_owned), name: name.into(), data: data.into() })
        };
        assert_eq!(read_event(&mut lines).unwrap(), event(Some("7"), "stdout", "{\"text\":\"a\"}"));
        assert_eq!(read_event(&mut lines).unwrap(), event(None, "", "b\nc"));
        assert_eq!(read_event(&mut lines).unwrap(), None);
    }
}

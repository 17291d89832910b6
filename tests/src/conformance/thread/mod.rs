//! The family `thread`. The texts are the same on every host, byte for byte.

mod bash;
mod edits;
mod files;
mod life;
mod listing;
mod python;
mod search;

use serde_json::{Value, json};

use super::Case;
use super::session::Session;

pub(super) const CASES: &[Case] = {
    use super::Capability::{AtOnce, Big, Exec, LongInput, PlainUser, Thread};
    use super::case;
    &[
        case("thread_directories", life::directories).needs(&[Thread]),
        case("thread_keeps_to_itself", life::own).needs(&[Thread]),
        case("thread_first_calls_at_once", life::at_once).needs(&[Thread, AtOnce]),
        case("thread_inputs", life::inputs).needs(&[Thread]),
        case("thread_paths_outside", life::outside).needs(&[Thread]),
        case("thread_tells_nothing_of_the_host", life::host).needs(&[Thread, Exec]),
        case("thread_bash", bash::parts).needs(&[Thread, Exec]),
        case("thread_bash_is_a_shell", bash::shell).needs(&[Thread, Exec]),
        case("thread_bash_long_commands", bash::long).needs(&[Thread, Exec, LongInput]),
        case("thread_bash_is_cut", bash::cut).needs(&[Thread, Exec]),
        case("thread_bash_background", bash::background).needs(&[Thread, Exec]),
        case("thread_python", python::runs).needs(&[Thread, Exec]),
        case("thread_pip", python::installs).needs(&[Thread, Exec]),
        case("thread_bash_without_programs", bash::without).needs(&[Thread]).lacks(&[Exec]),
        case("thread_ls", listing::levels).needs(&[Thread]),
        case("thread_ls_ignores", listing::ignored).needs(&[Thread]),
        case("thread_ls_errors", listing::errors).needs(&[Thread]),
        case("thread_ls_links", listing::links).needs(&[Thread, Exec]),
        case("thread_ls_is_cut", listing::cut).needs(&[Thread]),
        case("thread_write_file", files::write).needs(&[Thread]),
        case("thread_write_file_errors", files::write_errors).needs(&[Thread]),
        case("thread_read_file", edits::read).needs(&[Thread]),
        case("thread_read_file_errors", edits::read_errors).needs(&[Thread]),
        case("thread_read_file_is_cut", edits::read_is_cut).needs(&[Thread]),
        case("thread_read_file_within_a_line", edits::part_of_a_long_line).needs(&[Thread]),
        case("thread_read_file_of_gigabytes", edits::gigabytes).needs(&[Thread, Exec, Big]),
        case("thread_str_replace", edits::replace).needs(&[Thread]),
        case("thread_str_replace_errors", edits::replace_errors).needs(&[Thread]),
        case("thread_str_replace_keeps_bytes", edits::bytes).needs(&[Thread, Exec]),
        case("thread_edits_at_once", edits::at_once).needs(&[Thread, AtOnce]),
        case("thread_closed_files", files::closed).needs(&[Thread, Exec, PlainUser]),
        case("thread_appends_at_once", files::appends).needs(&[Thread, AtOnce]),
        case("thread_glob", search::glob).needs(&[Thread]),
        case("thread_glob_errors", search::glob_errors).needs(&[Thread]),
        case("thread_grep", search::grep).needs(&[Thread]),
        case("thread_grep_errors", search::grep_errors).needs(&[Thread]),
        case("thread_searches_follow_no_link_out", search::links).needs(&[Thread, Exec]),
    ]
};

/// The toolset.
const THREAD: &str = "thread";
/// The directory that a thread works in.
const WORKSPACE: &str = "/mnt/user-data/workspace";

impl Session<'_> {
    /// Calls a tool of the family, and returns its text and whether it failed. Adds a description to the input.
    #[track_caller]
    fn thread(&self, tool: &str, input: Value) -> (String, bool) {
        let (mut whole, Value::Object(fields)) = (serde_json::Map::new(), input) else {
            panic!("the input is an object")
        };
        whole.insert("description".to_owned(), "Test the tool".into());
        whole.extend(fields);
        let result = self.call_of(THREAD, tool, &Value::Object(whole));
        (result.content, result.is_error)
    }

    /// Calls a tool that must succeed, and returns its text.
    #[track_caller]
    fn says(&self, tool: &str, input: Value) -> String {
        let (text, is_error) = self.thread(tool, input);
        assert!(!is_error, "{tool}: {text}");
        text
    }

    /// Calls a tool that must fail with this text.
    #[track_caller]
    fn refuses(&self, tool: &str, input: Value, text: &str) {
        assert_eq!(self.thread(tool, input), (text.to_owned(), true), "{tool}");
    }

    #[track_caller]
    fn bash(&self, command: &str) -> String {
        self.says("bash", json!({ "command": command }))
    }

    #[track_caller]
    fn ls(&self, path: &str) -> String {
        self.says("ls", json!({ "path": path }))
    }

    #[track_caller]
    fn put(&self, path: &str, content: &str) {
        let path = if path.starts_with('/') { path.to_owned() } else { format!("{WORKSPACE}/{path}") };
        assert_eq!(self.says("write_file", json!({ "path": path, "content": content })), "OK");
    }
}

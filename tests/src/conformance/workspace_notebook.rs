//! The cases of code as people write it in notebooks: figures, displays, imports and names.

use serde_json::{Value, json};

use super::session::Session;
use super::workspace_code::run;
use super::{Capability, Case, case};

pub(super) const CASES: &[Case] = &[
    case("workspace_code_figures", figures).needs(&[Capability::Exec]),
    case("workspace_code_displays", displays).needs(&[Capability::Exec]),
    case("workspace_code_like_a_cell", cells).needs(&[Capability::Exec]),
    case("workspace_code_imports", imports).needs(&[Capability::Exec]),
];

fn shown(mime: &str, data: &str) -> Value {
    json!({ "type": "display", "mime": mime, "data": data })
}

/// The HTML of a value that has a text as well, where it is sent.
fn html(session: &Session, data: &str) -> Option<Value> {
    session.can(Capability::Html).then(|| shown("text/html", data))
}

#[track_caller]
fn assert_outputs(session: &Session, language: &str, code: &str, outputs: &[Value]) {
    assert_eq!(run(session, language, code), json!({ "exit_code": 0, "outputs": outputs }), "{code}");
}

#[track_caller]
fn assert_result(session: &Session, language: &str, code: &str, text: &str) {
    assert_outputs(session, language, code, &[json!({ "type": "result", "text": text })]);
}

/// In place of matplotlib, which not every host has: what koze uses of it.
const PYPLOT: &str = r#"
figures, count = {}, 0
class Figure:
    def __init__(self, number): self.number = number
    def savefig(self, file, **_): file.write(b"\x89PNG%d" % self.number)
    def __repr__(self): return "<Figure %d>" % self.number
def figure(number=1):
    global count
    if number not in figures:
        count += 1
        figures[number] = Figure(count)
    return figures[number]
def plot(*_): figure()
def get_fignums(): return list(figures)
def close(number): del figures[number]
def show(): raise RuntimeError("it shows nothing")
"#;

fn figures(session: &Session) {
    for (path, content) in [("matplotlib/__init__.py", ""), ("matplotlib/pyplot.py", PYPLOT)] {
        session.ok("workspace__code__write_file", json!({ "path": path, "content": content }));
    }
    let code = "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nprint('between')\nplt.plot([2])\nplt.show()\nplt.plot([3])";
    let outputs = [
        shown("image/png", "iVBORzE="),
        shown("text/plain", "<Figure 1>"),
        json!({ "type": "stdout", "text": "between\n" }),
        shown("image/png", "iVBORzI="),
        shown("text/plain", "<Figure 2>"),
        shown("image/png", "iVBORzM="),
        shown("text/plain", "<Figure 3>"),
    ];
    assert_outputs(session, "python", code, &outputs);
}

fn displays(session: &Session) {
    let code = "from IPython.display import display, HTML\ndisplay(HTML('<b>'))\ndisplay({'text/html': '<i>', 'text/plain': 'i'}, raw=True)";
    let ran = run(session, "python", code);
    let mut outputs = ran["outputs"].as_array().expect("a list").clone();
    // IPython and koze describe a display in different words.
    for output in outputs.iter_mut().filter(|output| output["mime"] == "text/plain" && output["data"] != "i")
    {
        output["data"] = json!("a display");
    }
    let first = html(session, "<b>").into_iter().chain([shown("text/plain", "a display")]);
    let second = html(session, "<i>").into_iter().chain([shown("text/plain", "i")]);
    assert_eq!(outputs, first.chain(second).collect::<Vec<_>>(), "{ran}");
    let bundle = "class Bundle:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n        return {'text/html': '<q>', 'text/plain': 'q'}, {}\nBundle()";
    let outputs = html(session, "<q>").into_iter().chain([json!({ "type": "result", "text": "q" })]);
    assert_outputs(session, "python", bundle, &outputs.collect::<Vec<_>>());
}

fn cells(session: &Session) {
    // Indentation in a text stays.
    assert_result(session, "python", "x = '''\n  a'''\nx", "'\\n  a'");
    for hidden in ["x = 1; x;", "'é';  # no", "(1);"] {
        assert_outputs(session, "python", hidden, &[]);
    }
}

fn imports(session: &Session) {
    let module = json!({ "path": "module.mjs", "content": "export const a = 1;\nexport default 2;\n" });
    session.ok("workspace__code__write_file", module);
    let code = "import fs, { readFileSync as read } from 'fs';\nimport * as all from './module.mjs'\nimport two from \"./module.mjs\"\nimport 'os';\n[typeof fs.readFileSync, typeof read, all.a, two].join()";
    assert_result(session, "javascript", code, "'function,function,1,2'");
    assert_result(session, "javascript", "const { a } = await import('./module.mjs'); a", "1");
    let ran = run(session, "javascript", "import {\n  a,\n} from './module.mjs';\nthrow new Error('there')");
    assert!(ran["error"]["traceback"].as_str().is_some_and(|trace| trace.contains("<cell 1>:4")), "{ran}");
    // Twice in one context.
    let created = session.ok("workspace__code__create_code_context", json!({ "language": "js" }));
    for _ in 0..2 {
        let input = json!({ "context_id": created["context_id"], "code": "import fs from 'fs'; typeof fs" });
        let ran = session.ok("workspace__code__run_in_code_context", input);
        assert_eq!(ran["outputs"], json!([{ "type": "result", "text": "'object'" }]));
    }
}

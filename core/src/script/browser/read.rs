//! Reads pages: text, HTML, values of code, and screenshots.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Wire;
use super::client::beginning_of;
use super::page::{Page, take_field};
use super::{ELEMENT_MS, of_element};
use crate::error::{Code, Error, Result};

/// The longest text, HTML or value in bytes.
const TEXT: usize = 2 << 20;
/// The maximum size of a screenshot in bytes.
const IMAGE: usize = 5 << 19;
/// The maximum width and height of a screenshot in pixels.
const PIXELS: f64 = 16_384.0;

/// A text of the page, unless it is too long.
#[derive(Deserialize)]
struct Extract {
    text: Option<String>,
    #[serde(default)]
    length: u64,
}

/// An area of the page in pixels.
#[derive(Deserialize)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

impl<W: Wire> Page<W> {
    /// Returns the visible text of an element, or of the page.
    pub(super) async fn read_text(&mut self, selector: Option<&str>) -> Result<String> {
        self.extract_content(json!({ "action": "text", "selector": selector }), selector).await
    }

    /// Returns the HTML of an element, or of the page.
    pub(super) async fn read_html(&mut self, selector: Option<&str>, outer: bool) -> Result<String> {
        self.extract_content(json!({ "action": "html", "selector": selector, "outer": outer }), selector)
            .await
    }

    async fn extract_content(&mut self, mut input: Value, selector: Option<&str>) -> Result<String> {
        input["wait"] = ELEMENT_MS.into();
        input["limit"] = TEXT.into();
        let extract: Result<Extract> = self.run_action(input).await;
        let Extract { text, length } = match selector {
            Some(selector) => extract.map_err(|error| of_element(selector, error))?,
            None => extract?,
        };
        match text {
            Some(text) if text.len() <= TEXT => Ok(text),
            text => {
                let length = text.map_or(length, |text| text.len() as u64);
                let what = "select a smaller part with `selector`, or compute what you need with evaluate";
                Err(too_long("the text", length, what))
            }
        }
    }

    /// Runs code in the page, and returns its value as JSON.
    pub(super) async fn evaluate_code(&mut self, code: &str) -> Result<Value> {
        let code = self.find_compiling_form(code).await?;
        // As in a console: a later call can declare the same names.
        let params =
            json!({ "expression": code, "replMode": true, "awaitPromise": true, "userGesture": true });
        let mut result = into_result(self.client.call_page("Runtime.evaluate", params).await?)?;
        if result["subtype"] == "promise" {
            let params = json!({ "promiseObjectId": result["objectId"] });
            result = into_result(self.client.call_page("Runtime.awaitPromise", params).await?)?;
        }
        let Some(object) = result.get("objectId").and_then(Value::as_str) else {
            return primitive_to_json(&result);
        };
        let params = json!({
            "functionDeclaration": format!(
                "function () {{ const text = JSON.stringify(this); return text !== undefined && text.length > {TEXT} ? text.length : text }}"
            ),
            "objectId": object, "returnByValue": true,
        });
        let text = into_result(self.client.call_page("Runtime.callFunctionOn", params).await?)?;
        match &text["value"] {
            Value::String(text) if text.len() <= TEXT => serde_json::from_str(text)
                .map_err(|_| Error::new(Code::TooLarge, "the value is nested too deeply: return less of it")),
            Value::String(text) => Err(too_long("the value", text.len() as u64, "return less of it")),
            Value::Number(length) => {
                Err(too_long("the value", length.as_u64().unwrap_or_default(), "return less of it"))
            }
            // A value that has no JSON, such as a function.
            _ => Ok(Value::Null),
        }
    }

    /// Returns the code in the form in which it compiles: a program, whose value is that of its last expression; an expression
    /// that awaits something; or the body of an async function. Nothing is run, because code must not run twice.
    async fn find_compiling_form<'a>(&mut self, code: &'a str) -> Result<Cow<'a, str>> {
        // Needed to compile. It also makes the browser send the page's console output, so it is enabled only briefly.
        self.client.tell_page("Runtime.enable", &json!({}))?;
        let compiled = self.try_forms(code).await;
        self.client.tell_page("Runtime.disable", &json!({}))?;
        compiled
    }

    async fn try_forms<'a>(&mut self, code: &'a str) -> Result<Cow<'a, str>> {
        let Some(wrong) = self.find_syntax_error(code).await? else { return Ok(code.into()) };
        for wrapped in [format!("(async () => (\n{code}\n))()"), format!("(async () => {{\n{code}\n}})()")] {
            if self.find_syntax_error(&wrapped).await?.is_none() {
                return Ok(wrapped.into());
            }
        }
        Err(Error::new(Code::InvalidInput, format!("the code does not compile: {}", beginning_of(&wrong))))
    }

    /// Returns the syntax error of code, if it has one.
    async fn find_syntax_error(&mut self, code: &str) -> Result<Option<String>> {
        let params = json!({ "expression": code, "sourceURL": "", "persistScript": false });
        let compiled = self.client.call_page("Runtime.compileScript", params).await?;
        Ok(compiled.get("exceptionDetails").map(exception_text))
    }

    /// Takes a screenshot of an element, of the whole page, or of its visible part.
    pub(super) async fn take_screenshot(&mut self, selector: Option<&str>, full: bool) -> Result<Value> {
        let area = match selector {
            Some(selector) => {
                let input = json!({ "action": "box", "selector": selector, "wait": ELEMENT_MS });
                Some(self.run_action::<Area>(input).await.map_err(|error| of_element(selector, error))?)
            }
            None if full => {
                let metrics = self.client.call_page("Page.getLayoutMetrics", json!({})).await?;
                Some(take_field::<Area>(metrics, "cssContentSize")?)
            }
            None => None,
        };
        let mut params = json!({ "format": "png", "captureBeyondViewport": area.is_some() });
        if let Some(Area { x, y, width, height }) = area {
            if width > PIXELS || height > PIXELS {
                let text = format!(
                    "the picture would have {width:.0} x {height:.0} pixels, but may have at most {PIXELS} x {PIXELS}: select an \
                     element, or leave out `full_page`"
                );
                return Err(Error::new(Code::TooLarge, text));
            }
            params["clip"] =
                json!({ "x": x, "y": y, "width": width.max(1.0), "height": height.max(1.0), "scale": 1 });
        }
        let image: String =
            take_field(self.client.call_page("Page.captureScreenshot", params).await?, "data")?;
        if image.len() > IMAGE.div_ceil(3) * 4 {
            let what = "select an element, or leave out `full_page`";
            return Err(too_long("the picture", (image.len() / 4 * 3) as u64, what));
        }
        let (width, height) = png_size(&image)
            .ok_or_else(|| Error::new(Code::Internal, "the browser returned a picture that is not PNG"))?;
        Ok(json!({ "image": image, "width": width, "height": height }))
    }
}

/// Returns the width and the height in the header of a picture.
fn png_size(image: &str) -> Option<(u32, u32)> {
    // The signature, the length and name of the first chunk, and two numbers, in three bytes for every four characters.
    let head = STANDARD.decode(image.get(..32)?).ok()?;
    let number = |at: usize| Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?));
    (head.get(1..4)? == b"PNG").then_some((number(16)?, number(20)?))
}

/// Returns the result of code, or the error for what it threw.
fn into_result(mut done: Value) -> Result<Value> {
    if let Some(details) = done.get("exceptionDetails") {
        let text = exception_text(details);
        return Err(Error::new(
            Code::InvalidInput,
            format!("the code failed in the page: {}", beginning_of(&text)),
        ));
    }
    Ok(done["result"].take())
}

/// Returns what was thrown, without the stack.
fn exception_text(details: &Value) -> String {
    let thrown = &details["exception"];
    let text = thrown["description"].as_str().or(thrown["value"].as_str()).or(details["text"].as_str());
    text.unwrap_or("unknown").lines().next().unwrap_or_default().to_owned()
}

/// Returns a value that is not an object as JSON.
fn primitive_to_json(result: &Value) -> Result<Value> {
    match &result["value"] {
        Value::String(text) if text.len() > TEXT => {
            Err(too_long("the value", text.len() as u64, "return less of it"))
        }
        // A BigInt, or a number that JSON does not have.
        Value::Null => Ok(result.get("unserializableValue").cloned().unwrap_or_default()),
        value => Ok(value.clone()),
    }
}

fn too_long(what: &str, length: u64, next: &str) -> Error {
    let most = if what == "the picture" { IMAGE } else { TEXT };
    Error::new(Code::TooLarge, format!("{what} has {length} bytes, but may have at most {most}: {next}"))
}

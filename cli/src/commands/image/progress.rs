//! How far a pull or an import is: bars on a terminal, else a line for each layer.

use std::collections::HashMap;
use std::io::{self, IsTerminal as _};
use std::sync::Mutex;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use koze_image::Event;

use crate::commands::local::size::format_bytes;
use crate::commands::show;

/// The bars of the layers.
pub(super) struct Bars {
    /// `None` if standard error is not a terminal.
    all: Option<MultiProgress>,
    layers: Mutex<HashMap<String, ProgressBar>>,
}

impl Bars {
    pub(super) fn new() -> Self {
        let all = io::stderr().is_terminal().then(MultiProgress::new);
        Self { all, layers: Mutex::default() }
    }

    /// Shows a step.
    pub(super) fn show(&self, event: Event) {
        let Some(all) = &self.all else {
            return match event {
                Event::Present(layer) => show::err(&format!("{layer} is there already\n")),
                Event::Started(layer, bytes) => show::err(&format!("{layer} {}\n", format_bytes(bytes))),
                Event::Finished(layer) => show::err(&format!("{layer} unpacked\n")),
                Event::Read(..) => {}
            };
        };
        let mut layers = self.layers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match event {
            Event::Present(_) => {}
            Event::Started(layer, bytes) => {
                let bar = all.add(ProgressBar::new(bytes));
                let template = "{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {msg}";
                if let Ok(style) = ProgressStyle::with_template(template) {
                    bar.set_style(style);
                }
                bar.set_prefix(layer.to_owned());
                layers.insert(layer.to_owned(), bar);
            }
            Event::Read(layer, bytes) => {
                let Some(bar) = layers.get(layer) else { return };
                bar.inc(bytes);
                if Some(bar.position()) == bar.length() {
                    bar.set_message("unpacking");
                }
            }
            Event::Finished(layer) => {
                if let Some(bar) = layers.remove(layer) {
                    bar.finish_and_clear();
                }
            }
        }
    }

    /// Removes the bars from the terminal.
    pub(super) fn clear(&self) {
        if let Some(all) = &self.all {
            // An error of the terminal does not matter: the command is done.
            let _ = all.clear();
        }
    }
}

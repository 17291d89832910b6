//! The binary on projects in temporary directories: what it prints, and what became of the user's files.

mod attribute;
mod build;
mod check;
mod classes;
mod common;
mod config;
mod contradictions;
mod explain;
mod exports;
mod files;
mod forms;
mod image;
mod list;
mod migrations;
mod names;
mod new;
mod ownership;
mod package;
mod remove;
mod rules;
mod sdk;
mod source;
mod storage;

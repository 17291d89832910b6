use proc_macro2::Span;

/// A value and its span.
#[derive(Debug, Clone)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// The span.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// Creates a value with a span.
    pub fn new(value: T, span: Span) -> Self {
        Spanned { value, span }
    }
}

//! Misspelled words.

/// Returns the known word nearest to `word`, if it is near enough to be a typing error.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&word.to_lowercase(), known), *known))
        .filter(|(distance, known)| *distance <= known.len().max(word.len()) / 2 && *distance <= 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_suggested() {
        let known = ["image", "variant", "max_instances"];
        assert_eq!(nearest("imgae", &known), Some("image"));
        assert_eq!(nearest("maxInstances", &known), Some("max_instances"));
        assert_eq!(nearest("zzzzzzzz", &known), None);
    }
}

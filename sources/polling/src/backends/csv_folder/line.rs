//! Lines out of bytes, and whether the last one is whole.

use csv::{ByteRecord, ReaderBuilder};

/// A line; a quoted field may spread it over several.
#[derive(Default)]
pub(super) struct Line {
    /// Its fields.
    pub(super) fields: ByteRecord,
    /// The line of the text that it begins on, from 1.
    pub(super) number: u64,
    /// Lines of the text up to its end.
    pub(super) last: u64,
    start: usize,
    /// The byte behind it.
    pub(super) end: usize,
    /// False: nothing tells that it ends here. The last one, without a line break or with a quote that is still open.
    pub(super) is_finished: bool,
}

/// Hands out the lines of a text until `take` says stop. Those without any text are left out. Invalid text is the taker's to
/// notice.
pub(super) fn each_line<E>(
    text: &[u8],
    delimiter: u8,
    mut take: impl FnMut(&Line) -> Result<bool, E>,
) -> Result<(), E> {
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).from_reader(text);
    let mut held: Option<Line> = None;
    let mut next = ByteRecord::new();
    loop {
        let found = reader.read_byte_record(&mut next).expect("bytes in memory, of any number of fields, can be read");
        // A line is handed out once it is known whether one follows.
        if let Some(line) = &mut held {
            line.is_finished = found || is_finished(&text[line.start..]);
            if !take(line)? {
                return Ok(());
            }
        }
        if !found {
            return Ok(());
        }
        let line = held.get_or_insert_with(Line::default);
        std::mem::swap(&mut line.fields, &mut next);
        let place = |byte: u64| usize::try_from(byte).expect("a place in memory");
        let (start, end) = (line.fields.position(), reader.position());
        line.start = start.map_or(0, |start| place(start.byte()));
        // The reader leaves out empty lines behind this place, and the second half of a line break of two bytes.
        let breaks = text[line.start..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
        let skipped = breaks.filter(|byte| **byte == b'\n').count() as u64;
        line.number = start.map_or(1, csv::Position::line) + skipped;
        line.end = place(end.byte());
        line.last = end.line() - 1;
    }
}

/// True when nothing can be missing of a last line: it has its line break, and every quote its partner.
fn is_finished(line: &[u8]) -> bool {
    let quotes = line.iter().filter(|byte| **byte == b'"').count();
    matches!(line.last(), Some(b'\n' | b'\r')) && quotes.is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(u64, usize, Vec<String>, bool)> {
        let mut lines = Vec::new();
        let taken: Result<(), ()> = each_line(text.as_bytes(), b',', |line| {
            let fields = line.fields.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect();
            lines.push((line.number, line.end, fields, line.is_finished));
            Ok(true)
        });
        taken.unwrap();
        lines
    }

    #[test]
    fn only_a_last_line_can_be_unfinished() {
        let finished = |text| lines(text).into_iter().map(|(.., finished)| finished).collect::<Vec<_>>();
        assert_eq!(finished("a,b\n1,2\n"), [true, true]);
        assert_eq!(finished("a,b\r\n1,2\r\n"), [true, true]);
        assert_eq!(finished("a,b\n1,2"), [true, false]);
        assert_eq!(finished("a,b\n1,\"two\nlines"), [true, false]);
        assert_eq!(finished("a,b\n1,\"two\n"), [true, false]);
        assert_eq!(finished("a,b\n1,\"two\nlines\"\n"), [true, true]);
        assert!(finished("").is_empty());
    }

    #[test]
    fn lines_are_counted_as_an_editor_counts_them() {
        let text = "a,b\n1,\"two\nlines\"\n\n3,4\n";
        let found: Vec<_> = lines(text).into_iter().map(|(number, ..)| number).collect();
        assert_eq!(found, [1, 2, 5]);
        assert_eq!(lines(text).last().unwrap().1, text.len());
        let found: Vec<_> = lines("a,b\r\n1,2\r\n\r\n3,4\r\n").into_iter().map(|(number, ..)| number).collect();
        assert_eq!(found, [1, 2, 4]);
    }

    #[test]
    fn reading_on_from_the_end_of_a_line_gives_the_rest() {
        for text in ["a,b\n1,2\n\n3,4\n", "a,b\r\n1,2\r\n\r\n3,4\r\n", "a,b\n\"1\n\",2\n3,4"] {
            let all = lines(text);
            for (at, (_, end, ..)) in all.iter().enumerate() {
                let rest: Vec<_> = lines(&text[*end..]).into_iter().map(|(_, _, fields, _)| fields).collect();
                let wanted: Vec<_> = all[at + 1..].iter().map(|(_, _, fields, _)| fields.clone()).collect();
                assert_eq!(rest, wanted, "{text:?} from {end}");
            }
        }
    }
}

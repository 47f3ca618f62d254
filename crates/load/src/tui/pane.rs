//! Part of the screen. Drawing is clipped at its edges, so that no panel writes over another.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// Meaning of a text. Colours are among the sixteen that each terminal adapts to its background, and colour alone carries no
/// meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Plain,
    Strong,
    Faint,
    Title,
    Bar,
    Good,
    Bad,
    Warning,
    /// Percentile by its index: 0 is p50, 1 is p95, 2 is p99.
    Series(usize),
}

/// Styles of the meanings, with or without colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Theme {
    pub(super) colours: bool,
}

impl Theme {
    pub(super) fn style(self, look: Look) -> Style {
        let style = Style::new();
        let coloured = |colour| if self.colours { style.fg(colour) } else { style };
        match look {
            Look::Plain => style,
            Look::Strong => style.add_modifier(Modifier::BOLD),
            Look::Faint => style.add_modifier(Modifier::DIM),
            Look::Title => coloured(Color::Cyan).add_modifier(Modifier::BOLD),
            Look::Bar => coloured(Color::Cyan),
            Look::Good => coloured(Color::Green).add_modifier(Modifier::BOLD),
            Look::Bad => coloured(Color::Red).add_modifier(Modifier::BOLD),
            Look::Warning => coloured(Color::Red).add_modifier(Modifier::BOLD | Modifier::REVERSED),
            Look::Series(0) => coloured(Color::Green),
            Look::Series(1) => coloured(Color::Cyan),
            Look::Series(_) => coloured(Color::Magenta),
        }
    }
}

/// Rectangle to draw in; coordinates count from its upper left corner.
#[derive(Debug)]
pub(super) struct Pane<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    theme: Theme,
}

impl<'a> Pane<'a> {
    pub(super) fn new(buffer: &'a mut Buffer, area: Rect, theme: Theme) -> Self {
        let area = area.intersection(buffer.area);
        Pane { buffer, area, theme }
    }

    pub(super) fn width(&self) -> usize {
        usize::from(self.area.width)
    }

    pub(super) fn height(&self) -> usize {
        usize::from(self.area.height)
    }

    /// Returns a part of the pane, clipped at its edges.
    pub(super) fn part(&mut self, x: usize, y: usize, width: usize, height: usize) -> Pane<'_> {
        let clamp = |value: usize, max: u16| u16::try_from(value).unwrap_or(u16::MAX).min(max);
        let (x, y) = (clamp(x, self.area.width), clamp(y, self.area.height));
        let width = clamp(width, self.area.width - x);
        let height = clamp(height, self.area.height - y);
        let area = Rect { x: self.area.x + x, y: self.area.y + y, width, height };
        Pane { buffer: self.buffer, area, theme: self.theme }
    }

    /// Writes text and returns the position of its end.
    pub(super) fn text(&mut self, x: usize, y: usize, text: &str, look: Look) -> usize {
        if x >= self.width() || y >= self.height() {
            return x;
        }
        let (left, top) = (self.area.x + x as u16, self.area.y + y as u16);
        let room = self.width() - x;
        let (end, _) = self.buffer.set_stringn(left, top, text, room, self.theme.style(look));
        usize::from(end - self.area.x)
    }

    /// Writes text that ends at the right edge.
    pub(super) fn right(&mut self, y: usize, text: &str, look: Look) {
        let x = self.width().saturating_sub(cells(text));
        self.text(x, y, text, look);
    }

    /// Writes text, shortened with `…` if it does not fit. Returns the position of its end.
    pub(super) fn fitted(&mut self, x: usize, y: usize, text: &str, look: Look) -> usize {
        let text = shortened(text, self.width().saturating_sub(x));
        self.text(x, y, &text, look)
    }

    /// Writes the parts in order with two blanks between them, and skips those that do not fit whole.
    pub(super) fn parts(&mut self, x: usize, y: usize, parts: &[(String, Look)]) {
        let mut at = x;
        for (text, look) in parts {
            let gap = if at == x { 0 } else { 2 };
            if at + gap + cells(text) > self.width() {
                continue;
            }
            at = self.text(at + gap, y, text, *look);
        }
    }

    /// Clears all cells of the pane.
    pub(super) fn clear(&mut self) {
        for y in self.area.top()..self.area.bottom() {
            for x in self.area.left()..self.area.right() {
                self.buffer[(x, y)].reset();
            }
        }
    }
}

/// Returns the number of cells that a text occupies.
pub(super) fn cells(text: &str) -> usize {
    ratatui::text::Span::raw(text).width()
}

/// Shortens a text to at most `room` cells, with `…` in place of the rest.
pub(super) fn shortened(text: &str, room: usize) -> String {
    if cells(text) <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    for c in text.chars() {
        let longer = format!("{short}{c}…");
        if cells(&longer) > room {
            break;
        }
        short.push(c);
    }
    if room > 0 { short + "…" } else { short }
}

/// Column of a table: its head, whether it is aligned right, and its rank. If room is short, columns of higher rank are left
/// out first.
pub(super) type Field = (&'static str, bool, u8);

/// Minimum width of a table's last column, in cells; longer text there is cut.
const LAST_MIN: usize = 14;

/// Writes a table at the left of a pane, without the columns that do not fit; the last column shown is shortened.
pub(super) fn table(pane: &mut Pane<'_>, top: usize, fields: &[Field], rows: &[(Vec<String>, Look)]) {
    let widths: Vec<usize> = fields
        .iter()
        .enumerate()
        .map(|(at, (name, ..))| {
            rows.iter().filter_map(|(row, _)| row.get(at)).map(|text| cells(text)).fold(cells(name), usize::max)
        })
        .collect();
    let mut shown: Vec<usize> = (0..fields.len()).collect();
    let last = fields.len().saturating_sub(1);
    let needs = |at: &usize| if *at == last && !fields[last].1 { widths[*at].min(LAST_MIN) } else { widths[*at] } + 2;
    while shown.len() > 1 && shown.iter().map(needs).sum::<usize>() > pane.width() + 2 {
        let Some(worst) = (0..shown.len()).max_by_key(|at| fields[shown[*at]].2) else { break };
        shown.remove(worst);
    }
    let mut line = |y: usize, texts: &dyn Fn(usize) -> String, look: Look| {
        let mut x = 0;
        for at in &shown {
            let (text, width) = (texts(*at), widths[*at]);
            let indent = if fields[*at].1 { width.saturating_sub(cells(&text)) } else { 0 };
            pane.fitted(x + indent, y, &text, look);
            x += width + 2;
        }
    };
    line(top, &|at| fields[at].0.to_owned(), Look::Faint);
    for (y, (row, look)) in rows.iter().enumerate() {
        line(top + 1 + y, &|at| row.get(at).cloned().unwrap_or_default(), *look);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(width: u16, height: u16, draw: impl Fn(&mut Pane<'_>)) -> Vec<String> {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        draw(&mut Pane::new(&mut buffer, area, Theme { colours: false }));
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
        (0..height).map(row).collect()
    }

    #[test]
    fn drawing_is_clipped_at_the_edges_of_a_pane() {
        let drawn = lines(6, 2, |pane| {
            let mut part = pane.part(2, 0, 3, 1);
            part.text(0, 0, "abcdef", Look::Plain);
            part.text(0, 1, "below", Look::Plain);
            part.text(9, 0, "beside", Look::Plain);
            pane.part(9, 9, 9, 9).text(0, 0, "outside", Look::Plain);
        });
        assert_eq!(drawn, ["  abc ", "      "]);
    }

    #[test]
    fn parts_that_do_not_fit_whole_are_left_out() {
        let part = |text: &str| (text.to_owned(), Look::Plain);
        let drawn = lines(12, 1, |pane| pane.parts(0, 0, &[part("abcd"), part("too long a one"), part("efg")]));
        assert_eq!(drawn, ["abcd  efg   "]);
        assert_eq!(
            (shortened("abcdef", 4), shortened("abc", 3), shortened("abc", 0)),
            ("abc…".into(), "abc".into(), "".into())
        );
    }

    #[test]
    fn a_table_loses_its_least_important_columns_first() {
        let fields = [("name", false, 0), ("p50", true, 2), ("p99", true, 1)];
        let rows = [(vec!["tls".to_owned(), "1 ms".to_owned(), "2 ms".to_owned()], Look::Plain)];
        let drawn = |width| lines(width, 2, |pane| table(pane, 0, &fields, &rows));
        assert_eq!(drawn(16), ["name   p50   p99", "tls   1 ms  2 ms"]);
        assert_eq!(drawn(12), ["name   p99  ", "tls   2 ms  "]);
        assert_eq!(drawn(3), ["na…", "tls"]);
    }
}

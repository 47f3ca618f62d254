//! A part of the screen: what is drawn there is cut at its edges, so that no panel can write over another.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// What text means. Colours are of the sixteen that each terminal has in tones that fit its background, and no meaning is
/// told by colour alone.
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
    /// The three percentiles, from the lowest.
    Series(usize),
}

/// How things look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A rectangle to draw in; places are counted from its upper left corner.
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

    /// A part of it; what would be outside is not in it.
    pub(super) fn part(&mut self, x: usize, y: usize, width: usize, height: usize) -> Pane<'_> {
        let clamp = |value: usize, max: u16| u16::try_from(value).unwrap_or(u16::MAX).min(max);
        let (x, y) = (clamp(x, self.area.width), clamp(y, self.area.height));
        let width = clamp(width, self.area.width - x);
        let height = clamp(height, self.area.height - y);
        let area = Rect { x: self.area.x + x, y: self.area.y + y, width, height };
        Pane { buffer: self.buffer, area, theme: self.theme }
    }

    /// Writes text and says where it ends.
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

    /// Writes text, with `…` in the place of what does not fit.
    pub(super) fn fitted(&mut self, x: usize, y: usize, text: &str, look: Look) -> usize {
        let text = shortened(text, self.width().saturating_sub(x));
        self.text(x, y, &text, look)
    }

    /// Writes as many of the parts, from the first, as fit whole, with room between them.
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

    /// Empties it.
    pub(super) fn clear(&mut self) {
        for y in self.area.top()..self.area.bottom() {
            for x in self.area.left()..self.area.right() {
                self.buffer[(x, y)].reset();
            }
        }
    }
}

/// Cells that a text takes.
pub(super) fn cells(text: &str) -> usize {
    ratatui::text::Span::raw(text).width()
}

/// A text of at most so many cells, with `…` in the place of what was cut.
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

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// Its head.
    pub(super) name: &'static str,
    /// Whether it stands at the right of its column, as figures do.
    pub(super) right: bool,
    /// Those with a higher one go first when there is no room.
    pub(super) rank: u8,
}

/// Cells that the last column of a table needs at least; longer words there are cut.
const LAST_MIN: usize = 14;

/// Writes a table at the left of a pane, without the columns that do not fit; the last one that is there is shortened.
pub(super) fn table(pane: &mut Pane<'_>, top: usize, fields: &[Field], rows: &[(Vec<String>, Look)]) {
    let widths: Vec<usize> = fields
        .iter()
        .enumerate()
        .map(|(at, field)| {
            rows.iter().filter_map(|(row, _)| row.get(at)).map(|text| cells(text)).fold(cells(field.name), usize::max)
        })
        .collect();
    let mut shown: Vec<usize> = (0..fields.len()).collect();
    let last = fields.len().saturating_sub(1);
    let needs =
        |at: &usize| if *at == last && !fields[last].right { widths[*at].min(LAST_MIN) } else { widths[*at] } + 2;
    while shown.len() > 1 && shown.iter().map(needs).sum::<usize>() > pane.width() + 2 {
        let Some(worst) = (0..shown.len()).max_by_key(|at| fields[shown[*at]].rank) else { break };
        shown.remove(worst);
    }
    let mut line = |y: usize, texts: &dyn Fn(usize) -> String, look: Look| {
        let mut x = 0;
        for at in &shown {
            let (text, width) = (texts(*at), widths[*at]);
            let indent = if fields[*at].right { width.saturating_sub(cells(&text)) } else { 0 };
            pane.fitted(x + indent, y, &text, look);
            x += width + 2;
        }
    };
    line(top, &|at| fields[at].name.to_owned(), Look::Faint);
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
    fn what_is_drawn_is_cut_at_the_edges_of_its_part() {
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
        let fields = fields.map(|(name, right, rank)| Field { name, right, rank });
        let rows = [(vec!["tls".to_owned(), "1 ms".to_owned(), "2 ms".to_owned()], Look::Plain)];
        let drawn = |width| lines(width, 2, |pane| table(pane, 0, &fields, &rows));
        assert_eq!(drawn(16), ["name   p50   p99", "tls   1 ms  2 ms"]);
        assert_eq!(drawn(12), ["name   p99  ", "tls   2 ms  "]);
        assert_eq!(drawn(3), ["na…", "tls"]);
    }
}

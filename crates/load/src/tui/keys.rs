//! Key bindings of the view.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::panel::Panel;
use super::state::{Quit, State};

/// Factor by which one press of `+` multiplies the load.
const STEP: f64 = 1.1;
/// Maximum number of presses of `+` or `-` in one direction: a factor of about 1000, the bound of a control.
const STEPS_MAX: i32 = 72;

/// Keys and their descriptions, for the help.
pub(super) const HELP: [(&str, &str); 8] = [
    ("p, space", "pause or resume"),
    ("+, -", "raise or lower the load by 10 %"),
    ("tab, shift-tab", "next or previous panel"),
    ("1 to 9", "show one panel"),
    ("0, esc", "show all panels"),
    ("q", "stop the run"),
    ("q again, ctrl-c", "quit at once"),
    ("?", "show or hide this help"),
];

impl State {
    /// Handles a key. Returns whether anything changed.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return false;
        }
        let notice = self.notice.take();
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => self.quit_now(),
            KeyCode::Char(_) if is_control => return notice.is_some(),
            KeyCode::Char('q' | 'Q') => self.quit_asked(),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = !self.help,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc | KeyCode::Char('0') => self.panel = None,
            KeyCode::Tab => self.panel = self.beside(1),
            KeyCode::BackTab => self.panel = self.beside(-1),
            KeyCode::Char(digit @ '1'..='9') => {
                let panel = Panel::numbered(digit as usize - '0' as usize);
                self.panel = panel.filter(|panel| self.panels().contains(panel));
            }
            KeyCode::Char('p' | 'P' | ' ') => self.pause(),
            KeyCode::Char('+' | '=') => self.scale(1),
            KeyCode::Char('-' | '_') => self.scale(-1),
            _ => return notice.is_some(),
        }
        true
    }

    /// Ends the run and the view at once.
    pub fn quit_now(&mut self) {
        self.quit = Quit::Now;
        if let Some(run) = &self.run {
            run.control.stop();
        }
    }

    /// Ends the run; the second call ends the view at once.
    pub fn quit_asked(&mut self) {
        if self.quit >= Quit::Asked {
            return self.quit_now();
        }
        self.quit = Quit::Asked;
        if let Some(run) = &self.run {
            run.control.stop();
        }
    }

    fn pause(&mut self) {
        if self.is_fixed() {
            return;
        }
        if let Some(run) = &self.run {
            run.control.pause(!run.control.is_paused());
        }
    }

    fn scale(&mut self, by: i32) {
        if self.is_fixed() {
            return;
        }
        self.scale_steps = (self.scale_steps + by).clamp(-STEPS_MAX, STEPS_MAX);
        if let Some(run) = &self.run {
            run.control.scale(STEP.powi(self.scale_steps));
        }
    }

    /// Returns whether the load must stay unchanged, and then shows the reason.
    fn is_fixed(&mut self) -> bool {
        // A paused or scaled point would not have the load it states, and the knee would be wrong without notice.
        let is_fixed = self.tuning.is_on();
        if is_fixed {
            self.notice = Some("autotune and matrix set the load themselves: pause and +/- are off".to_owned());
        }
        is_fixed
    }

    /// Returns the panel `places` after the current one in the cycle of all panels and the overview, which is `None`.
    fn beside(&self, places: isize) -> Option<Panel> {
        let panels = self.panels();
        let places_all = panels.len() + 1;
        let at = self.panel.and_then(|panel| panels.iter().position(|other| *other == panel)).map_or(0, |at| at + 1);
        let next = at.checked_add_signed(places).unwrap_or(places_all - 1) % places_all;
        next.checked_sub(1).and_then(|at| panels.get(at).copied())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tui::tests::generated;

    fn state(events: Vec<crate::progress::Event>) -> State {
        let mut state = State::new(true);
        events.into_iter().for_each(|event| state.apply(event, Duration::ZERO));
        state
    }

    fn press(state: &mut State, codes: &[KeyCode]) {
        codes.iter().for_each(|code| assert!(state.key(KeyEvent::from(*code)), "{code:?}"));
    }

    #[test]
    fn pause_and_scale_reach_the_run_and_come_back_to_where_they_were() {
        let mut state = state(generated::single(1, 3, 60));
        let control = state.run.as_ref().unwrap().control.clone();
        press(&mut state, &[KeyCode::Char('p')]);
        assert!(control.is_paused());
        press(&mut state, &[KeyCode::Char(' '), KeyCode::Char('+'), KeyCode::Char('+')]);
        assert!(!control.is_paused());
        assert_eq!(control.scaled(), 1.21);
        press(&mut state, &[KeyCode::Char('-'), KeyCode::Char('-'), KeyCode::Char('-')]);
        assert_eq!(control.scaled(), 0.909);
        press(&mut state, &[KeyCode::Char('+')]);
        assert_eq!(control.scaled(), 1.0);
        (0..200).for_each(|_| press(&mut state, &[KeyCode::Char('-')]));
        assert_eq!(control.scaled(), 0.001);
    }

    #[test]
    fn a_tuned_run_is_neither_paused_nor_scaled_and_says_why() {
        let mut state = state(generated::matrix(1));
        press(&mut state, &[KeyCode::Char('+'), KeyCode::Char('p')]);
        let control = &state.run.as_ref().unwrap().control;
        assert_eq!((control.is_paused(), control.scaled()), (false, 1.0));
        assert!(state.notice.unwrap().starts_with("autotune and matrix set the load"));
    }

    #[test]
    fn q_ends_the_run_and_a_second_one_everything_at_once() {
        let mut first = state(generated::single(1, 3, 60));
        press(&mut first, &[KeyCode::Char('q')]);
        assert!(first.run.as_ref().unwrap().control.is_stopped());
        assert_eq!(first.quit, Quit::Asked);
        press(&mut first, &[KeyCode::Char('q')]);
        assert_eq!(first.quit, Quit::Now);
        let mut second = state(generated::single(1, 3, 60));
        second.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert_eq!(second.quit, Quit::Now);
        assert!(second.run.as_ref().unwrap().control.is_stopped());
    }

    #[test]
    fn tab_goes_round_all_panels_and_digits_choose_one() {
        let mut state = state(generated::single(1, 3, 60));
        let mut seen = Vec::new();
        for _ in 0..=state.panels().len() {
            press(&mut state, &[KeyCode::Tab]);
            seen.push(state.panel);
        }
        assert_eq!(seen.pop(), Some(None), "after the last panel all are shown");
        assert_eq!(seen, state.panels().into_iter().map(Some).collect::<Vec<_>>());
        press(&mut state, &[KeyCode::BackTab]);
        assert_eq!(state.panel, state.panels().last().copied());
        press(&mut state, &[KeyCode::Char('2')]);
        assert_eq!(state.panel, Some(Panel::Latency));
        press(&mut state, &[KeyCode::Char('9')]);
        assert_eq!(state.panel, None, "there is no matrix here");
        press(&mut state, &[KeyCode::Char('3'), KeyCode::Char('?'), KeyCode::Esc]);
        assert_eq!((state.help, state.panel), (false, Some(Panel::Heat)));
        press(&mut state, &[KeyCode::Esc]);
        assert_eq!(state.panel, None);
    }
}

//! Calls that wait for a session of a token. Users get turns in rotation, and within a user its processes do, so that a
//! caller with many calls delays another one by one operation and not by all of its own.

use std::cell::Cell;
use std::collections::VecDeque;

/// Most calls that wait for a session: in all, of a user, and of a process.
pub(crate) const WAITING_MAX: [usize; 3] = [256, 192, 64];

/// Originator of operations in this thread: calls without one are of the same, unnamed caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Number of the user, of whatever meaning.
    pub user: u64,
    /// Number of the user's process.
    pub process: u64,
}

thread_local! {
    static CALLER: Cell<Caller> = const { Cell::new(Caller { user: 0, process: 0 }) };
}

impl Caller {
    /// Runs work whose operations on tokens are this caller's. The work must not move to another thread.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        /// Restores the caller of before, also after a panic.
        struct Before(Caller);
        impl Drop for Before {
            fn drop(&mut self) {
                CALLER.set(self.0);
            }
        }
        let _before = Before(CALLER.replace(self));
        work()
    }

    /// Returns the caller of this thread.
    pub(crate) fn current() -> Caller {
        CALLER.get()
    }
}

/// A caller's place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    caller: Caller,
    number: u64,
}

/// Reason that a call may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// All places are taken by calls that wait.
    All,
    /// The caller has its share of places.
    Share,
}

/// A level of the queue: entries by key, the next one first.
type Rotation<T> = VecDeque<(u64, T)>;

/// Waiting calls. The front one is the next.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    users: Rotation<Rotation<VecDeque<u64>>>,
    last: u64,
}

impl Queue {
    /// Adds a call of a caller at its place.
    pub(crate) fn enter(&mut self, caller: Caller) -> Result<Ticket, Full> {
        let len = |processes: &Rotation<VecDeque<u64>>| processes.iter().map(|(_, calls)| calls.len()).sum::<usize>();
        let user = self.users.iter().find(|(user, _)| *user == caller.user).map(|(_, processes)| processes);
        let process = user.and_then(|processes| processes.iter().find(|(process, _)| *process == caller.process));
        let [all_max, user_max, process_max] = WAITING_MAX;
        if self.users.iter().map(|(_, processes)| len(processes)).sum::<usize>() >= all_max {
            return Err(Full::All);
        }
        if user.map_or(0, len) >= user_max || process.map_or(0, |(_, calls)| calls.len()) >= process_max {
            return Err(Full::Share);
        }
        self.last += 1;
        let ticket = Ticket { caller, number: self.last };
        entry(entry(&mut self.users, caller.user), caller.process).push_back(ticket.number);
        Ok(ticket)
    }

    /// True if the call is the next one.
    pub(crate) fn is_next(&self, ticket: Ticket) -> bool {
        let calls = self.users.front().and_then(|(_, processes)| processes.front());
        calls.and_then(|(_, calls)| calls.front()) == Some(&ticket.number)
    }

    /// Removes the next call, which gets its turn: its process and its user come last from now on.
    pub(crate) fn advance(&mut self) {
        let Some((user, mut processes)) = self.users.pop_front() else { return };
        if let Some((process, mut calls)) = processes.pop_front() {
            calls.pop_front();
            if !calls.is_empty() {
                processes.push_back((process, calls));
            }
        }
        if !processes.is_empty() {
            self.users.push_back((user, processes));
        }
    }

    /// Removes a call that no longer waits; the others keep their places.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        for (user, processes) in &mut self.users {
            if *user == ticket.caller.user {
                for (_, calls) in &mut *processes {
                    calls.retain(|number| *number != ticket.number);
                }
                processes.retain(|(_, calls)| !calls.is_empty());
            }
        }
        self.users.retain(|(_, processes)| !processes.is_empty());
    }
}

/// Finds the entry of a key, or adds an empty one as the last.
fn entry<T: Default>(rotation: &mut Rotation<T>, key: u64) -> &mut T {
    let at = rotation.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
        rotation.push_back((key, T::default()));
        rotation.len() - 1
    });
    &mut rotation[at].1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(user: u64, process: u64) -> Caller {
        Caller { user, process }
    }

    /// Serves all calls, and returns their callers in the order of their turns.
    fn served(queue: &mut Queue, tickets: &[Ticket]) -> Vec<Caller> {
        let mut order = Vec::new();
        while let Some(ticket) = tickets.iter().find(|ticket| queue.is_next(**ticket)) {
            order.push(ticket.caller);
            queue.advance();
        }
        order
    }

    #[test]
    fn turns_rotate_among_users_and_among_the_processes_of_a_user() {
        let mut queue = Queue::default();
        let callers = [[1, 1]; 4].into_iter().chain([[1, 2], [2, 1], [2, 1]]);
        let tickets: Vec<_> = callers.map(|[user, process]| queue.enter(caller(user, process)).unwrap()).collect();
        let order: Vec<_> = served(&mut queue, &tickets).iter().map(|caller| (caller.user, caller.process)).collect();
        assert_eq!(order, [(1, 1), (2, 1), (1, 2), (2, 1), (1, 1), (1, 1), (1, 1)]);
        assert!(queue.users.is_empty());
    }

    #[test]
    fn no_process_and_no_user_takes_all_places_and_places_are_free_again() {
        let mut queue = Queue::default();
        let fill = |queue: &mut Queue, user, process| {
            let mut tickets = Vec::new();
            loop {
                match queue.enter(caller(user, process)) {
                    Ok(ticket) => tickets.push(ticket),
                    Err(full) => return (tickets, full),
                }
            }
        };
        let (first, full) = fill(&mut queue, 1, 1);
        assert_eq!((first.len(), full), (64, Full::Share));
        let rest: Vec<_> = (2..6).map(|process| fill(&mut queue, 1, process).0).collect();
        assert_eq!(rest.iter().map(Vec::len).collect::<Vec<_>>(), [64, 64, 0, 0]);
        let (other, full) = fill(&mut queue, 2, 1);
        assert_eq!((other.len(), full), (64, Full::All));
        first.iter().for_each(|ticket| queue.leave(*ticket));
        assert_eq!(fill(&mut queue, 3, 1).0.len(), 64);
        assert!(queue.is_next(rest[0][0]));
    }

    #[test]
    fn a_caller_is_the_threads_while_its_work_runs_and_no_longer() {
        let inner = caller(7, 8).run(|| {
            let panicked = std::panic::catch_unwind(|| caller(9, 9).run(|| panic!("of the work")));
            assert!(panicked.is_err());
            Caller::current()
        });
        assert_eq!((inner, Caller::current()), (caller(7, 8), Caller::default()));
    }
}

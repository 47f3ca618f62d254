//! Batching of many small requests to a broker into few calls: requests that arrive during a call form the next batch.

use std::fmt::Display;

use tokio::sync::{mpsc, oneshot};

use super::WRAP_MAX;

/// Requests in the queue; more wait for room in it, each until its caller's deadline.
const WAITING_MAX: usize = 2 * WRAP_MAX;

/// Sends requests in batches of up to [`WRAP_MAX`], one call at a time. Its task ends when it is dropped.
pub(super) struct Gather<Q, A> {
    jobs: mpsc::Sender<Job<Q, A>>,
}

/// A request with the channel for its answer.
struct Job<Q, A> {
    question: Q,
    asker: oneshot::Sender<Result<A, String>>,
}

impl<Q: Send + 'static, A: Send + 'static> Gather<Q, A> {
    /// Starts the task that calls `ask`, which answers every request in order, or fails for all of them.
    pub(super) fn new<F, E>(ask: impl Fn(Vec<Q>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<Vec<A>, E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(work(waiting, ask));
        Gather { jobs }
    }

    /// Sends several requests; returns for each its answer or the error.
    pub(super) async fn ask(&self, questions: Vec<Q>) -> Vec<Result<A, String>> {
        let mut answers = Vec::with_capacity(questions.len());
        for question in questions {
            let (asker, answer) = oneshot::channel();
            let sent = self.jobs.send(Job { question, asker }).await;
            answers.push(sent.map(|()| answer));
        }
        let mut all = Vec::with_capacity(answers.len());
        for answer in answers {
            let ended = || Err("the process is about to end".to_owned());
            all.push(match answer {
                Ok(answer) => answer.await.unwrap_or_else(|_| ended()),
                Err(_) => ended(),
            });
        }
        all
    }
}

async fn work<Q, A, F, E>(mut waiting: mpsc::Receiver<Job<Q, A>>, ask: impl Fn(Vec<Q>) -> F)
where
    F: Future<Output = Result<Vec<A>, E>>,
    E: Display,
{
    let mut jobs = Vec::with_capacity(WRAP_MAX);
    while waiting.recv_many(&mut jobs, WRAP_MAX).await > 0 {
        // A request of a caller that gave up waiting is dropped.
        let live = jobs.drain(..).filter(|job| !job.asker.is_closed());
        let (questions, askers): (Vec<_>, Vec<_>) = live.map(|job| (job.question, job.asker)).unzip();
        if questions.is_empty() {
            continue;
        }
        match ask(questions).await {
            Ok(answers) => {
                // Each request gets a result: a missing answer drops its sender, which its receiver sees as an error.
                for (asker, answer) in askers.into_iter().zip(answers) {
                    let _ = asker.send(Ok(answer));
                }
            }
            Err(err) => {
                for asker in askers {
                    let _ = asker.send(Err(err.to_string()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn requests_during_a_call_form_one_batch_with_an_answer_each() {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let seen = sizes.clone();
        let gather = Arc::new(Gather::new(move |questions: Vec<u32>| {
            seen.lock().unwrap().push(questions.len());
            async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok::<_, String>(questions.into_iter().map(|question| question * 2).collect())
            }
        }));
        let askers = (0..100_u32).map(|number| {
            let gather = gather.clone();
            tokio::spawn(async move { (number, gather.ask(vec![number]).await) })
        });
        for asker in askers.collect::<Vec<_>>() {
            let (number, answers) = asker.await.unwrap();
            assert_eq!(answers, [Ok(number * 2)]);
        }
        let sizes = sizes.lock().unwrap().clone();
        assert!(sizes.len() <= 3 && sizes.iter().sum::<usize>() == 100, "{sizes:?}");
    }

    #[tokio::test]
    async fn a_failed_batch_reports_its_reason_to_all_and_the_next_batch_runs() {
        let calls = Arc::new(Mutex::new(0));
        let gather = Gather::new(move |questions: Vec<u8>| {
            let mut calls = calls.lock().unwrap();
            *calls += 1;
            let answer = if *calls == 1 { Err("away") } else { Ok(questions) };
            async move { answer }
        });
        let first = gather.ask(vec![1, 2]).await;
        assert!(first.contains(&Err("away".into())), "{first:?}");
        assert_eq!(gather.ask(vec![3]).await, [Ok(3)]);
    }
}

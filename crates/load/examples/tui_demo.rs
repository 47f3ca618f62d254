//! The view over made-up events, to look at: `tui_demo single|matrix|panic|plain|json [SECONDS]`.
use std::sync::Arc;
use std::time::Duration;

use sealway_load::{engine, plain, plan, progress, record, tui};
use tokio::sync::mpsc::{Sender, channel};

#[allow(dead_code, unreachable_pub)]
#[path = "../src/tui/generated.rs"]
mod generated;

use generated::{CELLS, Dice, Story, cell_done};
use progress::{Event, Offered};

async fn run(events: &Sender<Event>, offered: Offered, rate: f64, seconds: u64, seed: u64) -> Option<bool> {
    let plan = Arc::new(generated::plan("orders", offered, seconds));
    let control = engine::Control::default();
    events.send(Event::Run { plan: plan.clone(), control: control.clone() }).await.ok()?;
    let mut story = Story::new(seed);
    for _ in 0..seconds {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if control.is_stopped() {
                break;
            }
        }
        if control.is_stopped() {
            break;
        }
        let rate = if control.is_paused() { 0.0 } else { rate * control.scaled() };
        events.send(Event::Tick(Box::new(story.tick(rate)))).await.ok()?;
    }
    events.send(Event::Outcome(Box::new(story.outcome(&plan)))).await.ok()?;
    Some(control.is_stopped())
}

async fn matrix(events: &Sender<Event>) -> Option<()> {
    let mut dice = Dice(9);
    for (index, name) in CELLS.iter().enumerate() {
        events.send(Event::Cell { name: (*name).to_owned(), index, of: CELLS.len() }).await.ok()?;
        for (point, workers) in [256_u64, 512, 1024, 2048].into_iter().enumerate() {
            for repeat in 1..=2 {
                let offered = Offered::Concurrency(workers);
                let left_max = 8 - point as u32;
                events.send(Event::Point { offered, repeat, repeats: 2, left_max }).await.ok()?;
                let rate = 9_000.0 * workers as f64 / (workers as f64 + 300.0);
                if run(events, offered, rate, 2, dice.next()).await? {
                    return None;
                }
            }
        }
        events.send(Event::CellDone(cell_done(&mut dice, name, 8))).await.ok()?;
    }
    None
}

#[tokio::main]
#[allow(clippy::print_stdout)]
async fn main() -> std::io::Result<()> {
    let mode = std::env::args().nth(1).unwrap_or_else(|| "single".to_owned());
    let seconds = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(60);
    let (sender, receiver) = channel(64);
    let kind = mode.clone();
    tokio::spawn(async move {
        match kind.as_str() {
            "matrix" => matrix(&sender).await.unwrap_or(()),
            _ => {
                run(&sender, Offered::Rate(5_000.0), 5_000.0, seconds, 11).await;
            }
        }
    });
    let _ = record::Phase::ALL;
    let shown = match mode.as_str() {
        "plain" | "json" => {
            let options = plain::Options { interval: Duration::from_secs(1), json: mode == "json" };
            plain::show(receiver, std::io::stdout(), options).await?
        }
        _ => tui::show(receiver, tui::Options::from_environment()).await?,
    };
    println!("summary: {:?}", shown.left);
    Ok(())
}

//! Which load to try next, and what was found: a function of what was measured, without a clock or a die.

use super::figures::Measured;
use super::{Found, Model, Settings, Step, Why};

/// An offered rate is met when this share of it is answered.
const MET_SHARE: f64 = 0.97;

/// Whether throughput grew as the load did.
fn is_linear(upper: &Measured, lower: &Measured) -> bool {
    upper.level() / lower.level() >= 0.95 * (upper.load / lower.load)
}

/// A search for the knee.
///
/// It grows the load until that buys no more throughput, errors are too many, or a rule is missed; looks where between
/// the last two loads that happens; then looks for the smallest load that yields as much.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    settings: Settings,
    /// By load, ascending.
    pub(super) points: Vec<Measured>,
}

impl Search {
    /// One that has measured nothing.
    pub(crate) fn new(settings: Settings) -> Self {
        Search { settings, points: Vec::new() }
    }

    /// Takes in what was measured, if something was, and says what to do next.
    pub(crate) fn next(&mut self, measured: Option<Measured>) -> Step {
        if let Some(point) = measured.filter(|point| !point.runs.is_empty()) {
            let at = self.points.partition_point(|other| other.load < point.load);
            self.points.insert(at, point);
        }
        if self.points.is_empty() {
            return Step::Measure(self.rounded(self.settings.min));
        }
        if self.points.iter().all(|point| point.runs.iter().all(|run| run.succeeded == 0)) {
            return self.done();
        }
        let left = self.settings.points_max.saturating_sub(self.points.len() as u32);
        let load = match left {
            0 => None,
            _ if self.settings.points_between == 0 => self.grow(left),
            _ => self.grow(left).or_else(|| self.edge()).or_else(|| self.knee()),
        };
        load.map_or_else(|| self.done(), Step::Measure)
    }

    /// How many more points there may be.
    pub(crate) fn left_max(&self) -> u32 {
        self.settings.points_max.saturating_sub(self.points.len() as u32)
    }

    /// Few enough errors, and no rule missed; for a rate also that it was met.
    fn is_good(&self, point: &Measured) -> bool {
        let met = self.settings.model == Model::Closed || point.level() >= MET_SHARE * point.load;
        met && self.is_healthy(point)
    }

    fn is_healthy(&self, point: &Measured) -> bool {
        let is_alive = point.level() > 0.0 && point.failed_share() <= self.settings.errors_max;
        is_alive && point.missed().is_none()
    }

    fn good(&self) -> impl DoubleEndedIterator<Item = &Measured> {
        self.points.iter().filter(|point| self.is_good(point))
    }

    /// The good point with the highest throughput.
    fn best(&self) -> Option<&Measured> {
        self.good().max_by(|one, other| one.level().total_cmp(&other.level()))
    }

    /// Whether it yields nearly as much as the best one.
    fn is_as_good(&self, point: &Measured, best: &Measured) -> bool {
        point.level() >= self.nearly() * best.level()
    }

    /// The share of the best one's throughput that is as good. Of several points of a plateau the best is so by its noise,
    /// so that a bar nearer than the noise would call others worse that are not.
    fn nearly(&self) -> f64 {
        let spreads = self.points.iter().map(Measured::spread);
        let (sum, degrees) =
            spreads.fold((0.0, 0.0), |(sum, all), (share, degrees)| (sum + share * degrees, all + degrees));
        let noise = if degrees > 0.0 { (sum / degrees).sqrt() } else { 0.0 };
        1.0 - (4.0 * noise).clamp(0.03, 0.045)
    }

    /// The lowest load above this one at which something is wrong.
    fn bad_above(&self, load: f64) -> Option<&Measured> {
        self.points.iter().find(|point| point.load > load && !self.is_good(point))
    }

    /// A higher load while it is worth it; a lower one while the lowest is too much.
    fn grow(&self, left: u32) -> Option<f64> {
        let Some(top) = self.good().next_back() else {
            let lowest = self.points.first()?.load;
            let down = self.rounded((lowest / (self.settings.growth * self.settings.growth)).max(1.0));
            // What is answered of a rate that is too high is a good hint of one that is not.
            let hint = self.hint().filter(|hint| *hint < lowest).map(|hint| self.rounded(hint));
            return Some(hint.unwrap_or(down)).filter(|load| *load < lowest);
        };
        let is_last = self.points.last().is_some_and(|last| last.load == top.load);
        if !is_last || top.load >= self.settings.max || left <= self.settings.points_between {
            return None;
        }
        let mut below = self.good().rev().skip(1);
        let (one, two) = (below.next(), below.next());
        // Every new load that is above all others came from here, so that the points below are what growing went through.
        if self.settings.model == Model::Closed && one.is_some_and(|one| !top.outgrows(one)) {
            return None;
        }
        let is_linear =
            |upper: &Measured, lower: &Measured| upper.level() / lower.level() >= 0.95 * (upper.load / lower.load);
        // Where throughput is exactly as the load, the knee is far: twice the stride, as what is left out can be tried later.
        let far = self.settings.points_between > 0
            && one.zip(two).is_some_and(|(one, two)| is_linear(top, one) && is_linear(one, two));
        let growth = if far { self.settings.growth.powi(2) } else { self.settings.growth };
        Some(self.rounded((top.load * growth).max(top.load + 1.0)).min(self.settings.max))
    }

    /// Between the best load and a higher one where something is wrong or throughput has fallen, if throughput still grew
    /// up to the best one: there may be a better one in between.
    fn edge(&self) -> Option<f64> {
        let best = self.best()?;
        let fell = |point: &&Measured| point.load > best.load && !(self.is_good(point) && self.is_as_good(point, best));
        let bad = self.points.iter().find(fell)?;
        if self.settings.model == Model::Open {
            return self.between_rates(best, bad);
        }
        let mut below = self.good().rev().skip_while(|point| point.load >= best.load);
        let (Some(one), two) = (below.next(), below.next()) else { return self.middle(best.load, bad.load) };
        if !self.is_good(bad) {
            // A flat stretch before the edge: the knee is not here.
            return if best.outgrows(one) { self.middle(best.load, bad.load) } else { None };
        }
        // Throughput falls beyond the best load: a peak, which is above where throughput is still as the load.
        if is_linear(best, one) {
            return self.middle(best.load, bad.load);
        }
        let is_flat = !best.outgrows(one) && two.is_none_or(|two| !is_linear(one, two));
        if is_flat { None } else { self.middle(one.load, best.load) }
    }

    /// Of the open model: the highest rate that is met.
    fn between_rates(&self, best: &Measured, bad: &Measured) -> Option<f64> {
        if bad.load / best.load <= 1.0 + self.settings.precision {
            return None;
        }
        let known = |load: f64| self.points.iter().any(|point| (point.load / load - 1.0).abs() < 0.012);
        let hint = self.hint().filter(|hint| *hint > best.load && *hint < bad.load && !known(*hint));
        if hint.is_some() {
            return hint.map(|hint| self.rounded(hint));
        }
        // What is answered of a higher rate is all that the target can do, unless it collapses when asked for too much: a
        // little more than the best tells the two apart.
        let near = self.rounded(best.load * (1.0 + self.settings.precision));
        let is_plateau = self.plateau().is_some_and(|most| (best.load..near).contains(&(most / MET_SHARE)));
        if is_plateau && near < bad.load && !known(near) { Some(near) } else { self.middle(best.load, bad.load) }
    }

    /// What the target answers a second when it is asked for too much.
    fn plateau(&self) -> Option<f64> {
        let kept = self.points.iter().filter(|point| point.failed_share() <= self.settings.errors_max);
        let over = kept.filter(|point| point.level() < MET_SHARE * point.load && point.level() > 0.0);
        over.map(Measured::level).max_by(f64::total_cmp)
    }

    /// A rate that should just be met, by what was answered of higher ones.
    fn hint(&self) -> Option<f64> {
        let is_open = self.settings.model == Model::Open;
        self.plateau().filter(|_| is_open).map(|most| most * 0.985)
    }

    /// The smallest load that yields as much as the best; of the closed model.
    fn knee(&self) -> Option<f64> {
        if self.settings.model == Model::Open {
            return None;
        }
        let best = self.best()?;
        // A little above the bar, so that noise does not put the point below it.
        let wanted = 0.985 * best.level();
        let upper = self.good().find(|point| self.is_as_good(point, best))?;
        let lower = self.good().take_while(|point| point.load < upper.load).last();
        let Some(lower) = lower else {
            return self.middle(1.0, upper.load).or_else(|| self.unless_known(1.0).filter(|_| upper.load <= 2.0));
        };
        let near = self.rounded(upper.load / (1.0 + self.settings.precision));
        if upper.load - lower.load <= 1.0 || near <= lower.load {
            return None;
        }
        // With so many workers as are busy at this throughput, if each request takes what it took below the knee.
        let predicted = self.rounded((wanted / lower.level() * lower.load * 1.01).ceil());
        if predicted <= lower.load {
            return self.middle(lower.load, upper.load);
        }
        self.unless_known(predicted.min(near)).or_else(|| self.middle(lower.load, upper.load))
    }

    /// The geometric middle, unless the two are near enough.
    fn middle(&self, low: f64, high: f64) -> Option<f64> {
        let is_near = high / low <= 1.0 + self.settings.precision;
        let middle = self.rounded((low * high).sqrt());
        if is_near || middle <= low || middle >= high { None } else { self.unless_known(middle) }
    }

    fn unless_known(&self, load: f64) -> Option<f64> {
        (!self.points.iter().any(|point| point.load == load)).then_some(load)
    }

    /// Workers are whole; a rate is told to a tenth.
    fn rounded(&self, load: f64) -> f64 {
        match self.settings.model {
            Model::Closed => load.round().clamp(1.0, self.settings.max),
            Model::Open => ((load * 10.0).round() / 10.0).clamp(0.1, self.settings.max),
        }
    }

    fn done(&self) -> Step {
        let knee = self.at_knee();
        Step::Done(Box::new(Found { why: self.why(knee), knee: knee.cloned(), points: self.points.clone() }))
    }

    /// What was found until somebody stopped it.
    pub(crate) fn stopped(&self) -> Found {
        Found { why: Why::Unfinished, knee: self.at_knee().cloned(), points: self.points.clone() }
    }

    fn at_knee(&self) -> Option<&Measured> {
        let best = self.best()?;
        match self.settings.model {
            Model::Open => Some(best),
            // Nearer than the bar that the search goes by: what is told is within 5 % of what there is.
            Model::Closed => self.good().find(|point| point.level() >= 0.965 * best.level()),
        }
    }

    fn why(&self, knee: Option<&Measured>) -> Why {
        let Some(knee) = knee else {
            let first = self.points.first();
            let reason = first.and_then(|point| point.missed().or(point.fault())).unwrap_or("nothing was answered");
            return Why::Failed(reason.to_owned());
        };
        // A good load just above says nothing: it is as near as the knee is known.
        let near = knee.load * (1.0 + self.settings.precision);
        let is_above = |point: &&Measured| point.load > if self.is_good(point) { near } else { knee.load };
        let above: Vec<_> = self.points.iter().filter(is_above).collect();
        // What the generator could not offer, the target was not asked.
        let judged: Vec<_> = if above.is_empty() { vec![knee] } else { above.clone() };
        let limited: Vec<_> = judged.iter().filter_map(|point| point.generator()).collect();
        if limited.len() * 2 > judged.len()
            && let Some(reason) = limited.first()
        {
            return Why::Generator((*reason).to_owned());
        }
        let Some(next) = above.first() else {
            let highest = self.points.last().is_some_and(|last| last.load >= self.settings.max);
            return if highest { Why::Ceiling } else { Why::Unfinished };
        };
        let flat = self.good().filter(is_above).any(|point| !point.outgrows(knee));
        if flat || self.is_good(next) {
            return Why::Plateau;
        }
        let bad = self.bad_above(knee.load).unwrap_or(next);
        if bad.failed_share() > self.settings.errors_max || bad.level() <= 0.0 {
            return Why::Errors(bad.fault().unwrap_or("requests failed").to_owned());
        }
        match bad.missed() {
            // A rate beyond the plateau makes every latency goal fail: the plateau is the reason then.
            Some(rule) if self.settings.model == Model::Closed || bad.level() >= MET_SHARE * bad.load => {
                Why::Rule(rule.to_owned())
            }
            _ => Why::Plateau,
        }
    }
}

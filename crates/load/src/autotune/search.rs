//! Chooses the next load to try, and the knee, from the measured points alone: without a clock and without randomness.

use super::figures::LoadPoint;
use super::{Model, SearchResult, Settings, Step, Why};

/// Share of an offered rate that must be answered for the rate to be sustained.
const MET_SHARE: f64 = 0.97;

/// Returns whether throughput grew in proportion to the load, within 5 %.
fn is_linear(upper: &LoadPoint, lower: &LoadPoint) -> bool {
    upper.level() / lower.level() >= 0.95 * (upper.load / lower.load)
}

/// State of a search for the knee: its settings, and the load points measured so far.
///
/// The search raises the load until throughput stops growing, too many requests fail, or a rule is missed. Then it narrows down
/// the limit between the last two loads. Last it looks for the smallest load with nearly the same throughput.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    settings: Settings,
    /// Load points measured so far, in ascending order of load.
    pub(super) points: Vec<LoadPoint>,
}

impl Search {
    /// Creates a search without measured points.
    pub(crate) fn new(settings: Settings) -> Self {
        Search { settings, points: Vec::new() }
    }

    /// Adds a measured load point, if there is one, and returns the next step.
    pub(crate) fn next(&mut self, measured: Option<LoadPoint>) -> Step {
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

    /// Returns the upper bound of the load points that remain.
    pub(crate) fn left_max(&self) -> u32 {
        self.settings.points_max.saturating_sub(self.points.len() as u32)
    }

    /// Returns whether a point is good: few errors and no missed rule, and in an open loop a sustained rate.
    fn is_good(&self, point: &LoadPoint) -> bool {
        let met = self.settings.model == Model::Closed || point.level() >= MET_SHARE * point.load;
        met && self.is_healthy(point)
    }

    fn is_healthy(&self, point: &LoadPoint) -> bool {
        let is_alive = point.level() > 0.0 && point.failed_share() <= self.settings.errors_max;
        is_alive && point.missed().is_none()
    }

    fn good(&self) -> impl DoubleEndedIterator<Item = &LoadPoint> {
        self.points.iter().filter(|point| self.is_good(point))
    }

    /// Returns the good point with the highest throughput.
    fn best(&self) -> Option<&LoadPoint> {
        self.good().max_by(|one, other| one.level().total_cmp(&other.level()))
    }

    /// Returns whether a point yields nearly the throughput of the best one.
    fn is_as_good(&self, point: &LoadPoint, best: &LoadPoint) -> bool {
        point.level() >= self.nearly() * best.level()
    }

    /// Returns the share of the best throughput that counts as equally good. Among the points of a plateau, noise decides which
    /// is the best; a share closer to 1 than the noise would reject points that are equally good.
    fn nearly(&self) -> f64 {
        let spreads = self.points.iter().map(LoadPoint::spread);
        let (sum, degrees) =
            spreads.fold((0.0, 0.0), |(sum, all), (share, degrees)| (sum + share * degrees, all + degrees));
        let noise = if degrees > 0.0 { (sum / degrees).sqrt() } else { 0.0 };
        1.0 - (4.0 * noise).clamp(0.03, 0.045)
    }

    /// Returns the lowest point above this load that is not good.
    fn bad_above(&self, load: f64) -> Option<&LoadPoint> {
        self.points.iter().find(|point| point.load > load && !self.is_good(point))
    }

    /// Returns a higher load while throughput grows, or a lower one while even the lowest load is too much.
    fn grow(&self, left: u32) -> Option<f64> {
        let Some(top) = self.good().next_back() else {
            let lowest = self.points.first()?.load;
            let down = self.rounded((lowest / (self.settings.growth * self.settings.growth)).max(1.0));
            // The throughput at a rate that is too high is a good estimate of a sustained rate.
            let hint = self.hint().filter(|hint| *hint < lowest).map(|hint| self.rounded(hint));
            return Some(hint.unwrap_or(down)).filter(|load| *load < lowest);
        };
        let is_last = self.points.last().is_some_and(|last| last.load == top.load);
        if !is_last || top.load >= self.settings.max || left <= self.settings.points_between {
            return None;
        }
        let mut below = self.good().rev().skip(1);
        let (one, two) = (below.next(), below.next());
        // Every load above all others was chosen here, so that the points below are those that growing went through.
        if self.settings.model == Model::Closed && one.is_some_and(|one| !top.outgrows(one)) {
            return None;
        }
        // Where throughput is proportional to the load, the knee is far: grow by the factor squared. Loads in between can follow
        // later.
        let far = self.settings.points_between > 0
            && one.zip(two).is_some_and(|(one, two)| is_linear(top, one) && is_linear(one, two));
        let growth = if far { self.settings.growth.powi(2) } else { self.settings.growth };
        Some(self.rounded((top.load * growth).max(top.load + 1.0)).min(self.settings.max))
    }

    /// Returns a load between the best one and a higher one that is not good or has less throughput, if throughput still grew up
    /// to the best one: a better load may lie in between.
    fn edge(&self) -> Option<f64> {
        let best = self.best()?;
        let fell =
            |point: &&LoadPoint| point.load > best.load && !(self.is_good(point) && self.is_as_good(point, best));
        let bad = self.points.iter().find(fell)?;
        if self.settings.model == Model::Open {
            return self.between_rates(best, bad);
        }
        let mut below = self.good().rev().skip_while(|point| point.load >= best.load);
        let (Some(one), two) = (below.next(), below.next()) else { return self.middle(best.load, bad.load) };
        if !self.is_good(bad) {
            // After a flat stretch before the edge, the knee is not here.
            return if best.outgrows(one) { self.middle(best.load, bad.load) } else { None };
        }
        // Throughput falls beyond the best load: the peak is above the loads at which throughput is proportional to the load.
        if is_linear(best, one) {
            return self.middle(best.load, bad.load);
        }
        let is_flat = !best.outgrows(one) && two.is_none_or(|two| !is_linear(one, two));
        if is_flat { None } else { self.middle(one.load, best.load) }
    }

    /// Returns a rate between the highest sustained one and a higher one, in an open loop.
    fn between_rates(&self, best: &LoadPoint, bad: &LoadPoint) -> Option<f64> {
        if bad.load / best.load <= 1.0 + self.settings.precision {
            return None;
        }
        let known = |load: f64| self.points.iter().any(|point| (point.load / load - 1.0).abs() < 0.012);
        let hint = self.hint().filter(|hint| *hint > best.load && *hint < bad.load && !known(*hint));
        if hint.is_some() {
            return hint.map(|hint| self.rounded(hint));
        }
        // The throughput at a higher rate is the target's capacity, unless the target collapses under overload. A rate slightly
        // above the best one tells the two apart.
        let near = self.rounded(best.load * (1.0 + self.settings.precision));
        let is_plateau = self.plateau().is_some_and(|most| (best.load..near).contains(&(most / MET_SHARE)));
        if is_plateau && near < bad.load && !known(near) { Some(near) } else { self.middle(best.load, bad.load) }
    }

    /// Returns the highest throughput at rates that the target did not sustain.
    fn plateau(&self) -> Option<f64> {
        let kept = self.points.iter().filter(|point| point.failed_share() <= self.settings.errors_max);
        let over = kept.filter(|point| point.level() < MET_SHARE * point.load && point.level() > 0.0);
        over.map(LoadPoint::level).max_by(f64::total_cmp)
    }

    /// Returns a rate that the target should just sustain, estimated from higher rates; in an open loop alone.
    fn hint(&self) -> Option<f64> {
        let is_open = self.settings.model == Model::Open;
        self.plateau().filter(|_| is_open).map(|most| most * 0.985)
    }

    /// Returns a load nearer to the smallest one with the throughput of the best, in a closed loop alone.
    fn knee(&self) -> Option<f64> {
        if self.settings.model == Model::Open {
            return None;
        }
        let best = self.best()?;
        // Slightly above the bar, so that noise does not put the point below it.
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
        // The number of workers that are busy at this throughput, if each request takes as long as below the knee.
        let predicted = self.rounded((wanted / lower.level() * lower.load * 1.01).ceil());
        if predicted <= lower.load {
            return self.middle(lower.load, upper.load);
        }
        self.unless_known(predicted.min(near)).or_else(|| self.middle(lower.load, upper.load))
    }

    /// Returns the geometric middle; `None` if the two loads are within the precision, or the middle was measured.
    fn middle(&self, low: f64, high: f64) -> Option<f64> {
        let is_near = high / low <= 1.0 + self.settings.precision;
        let middle = self.rounded((low * high).sqrt());
        if is_near || middle <= low || middle >= high { None } else { self.unless_known(middle) }
    }

    fn unless_known(&self, load: f64) -> Option<f64> {
        (!self.points.iter().any(|point| point.load == load)).then_some(load)
    }

    /// Rounds a load: workers to a whole number, a rate to a tenth.
    fn rounded(&self, load: f64) -> f64 {
        match self.settings.model {
            Model::Closed => load.round().clamp(1.0, self.settings.max),
            Model::Open => ((load * 10.0).round() / 10.0).clamp(0.1, self.settings.max),
        }
    }

    fn done(&self) -> Step {
        let knee = self.at_knee();
        Step::Done(Box::new(SearchResult { why: self.why(knee), knee: knee.cloned(), points: self.points.clone() }))
    }

    /// Returns the result of a search that was stopped.
    pub(crate) fn stopped(&self) -> SearchResult {
        SearchResult { why: Why::Unfinished, knee: self.at_knee().cloned(), points: self.points.clone() }
    }

    fn at_knee(&self) -> Option<&LoadPoint> {
        let best = self.best()?;
        match self.settings.model {
            Model::Open => Some(best),
            // This bar does not depend on the noise: the reported rate is within 5 % of the highest.
            Model::Closed => self.good().find(|point| point.level() >= 0.965 * best.level()),
        }
    }

    fn why(&self, knee: Option<&LoadPoint>) -> Why {
        let Some(knee) = knee else {
            let first = self.points.first();
            let reason = first.and_then(|point| point.missed().or(point.failure())).unwrap_or("no request succeeded");
            return Why::Failed(reason.to_owned());
        };
        // A good load within the precision of the knee says nothing.
        let near = knee.load * (1.0 + self.settings.precision);
        let is_above = |point: &&LoadPoint| point.load > if self.is_good(point) { near } else { knee.load };
        let above: Vec<_> = self.points.iter().filter(is_above).collect();
        // A load that the generator could not offer says nothing about the target.
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
            return Why::Errors(bad.failure().unwrap_or("requests failed").to_owned());
        }
        match bad.missed() {
            // A rate beyond the plateau misses every latency rule: then the plateau is the reason.
            Some(rule) if self.settings.model == Model::Closed || bad.level() >= MET_SHARE * bad.load => {
                Why::Rule(rule.to_owned())
            }
            _ => Why::Plateau,
        }
    }
}

// Least errors: Gauss-Newton with few unknowns, each kept in its range.
#include "app/least_errors.h"

#include <algorithm>
#include <cmath>

namespace shardsim {
namespace {

using Vector = std::vector<double>;

Vector errors_of(const Vector& times, const Vector& measured) {
  Vector errors;
  for (std::size_t i = 0; i < times.size(); ++i) errors.push_back(times[i] / measured[i] - 1);
  return errors;
}

double squares(const Vector& errors) {
  double sum = 0;
  for (const double error : errors) sum += error * error;
  return sum;
}

/// Solves a x = b with partial pivoting; an unknown that nothing depends on stays 0.
Vector solved(std::vector<Vector> a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < n; ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    std::swap(a[k], a[pivot]), std::swap(b[k], b[pivot]);
    if (std::abs(a[k][k]) < 1e-300) continue;
    for (std::size_t i = k + 1; i < n; ++i) {
      const double share = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= share * a[k][j];
      b[i] -= share * b[k];
    }
  }
  Vector x(n);
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * x[j];
    x[k] = std::abs(a[k][k]) < 1e-300 ? 0 : b[k] / a[k][k];
  }
  return x;
}

/// The step to where the errors would be least if the function were linear. Unknowns that would leave their range stay at its end.
Vector newton_step(const std::vector<Vector>& slopes, const Vector& errors, const Vector& at,
                   const std::vector<Unknown>& unknowns) {
  const std::size_t n = unknowns.size();
  std::vector<bool> held(n, false);
  for (;;) {
    std::vector<Vector> a(n, Vector(n));
    Vector b(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t row = 0; row < errors.size(); ++row) {
        b[i] -= held[i] ? 0 : slopes[i][row] * errors[row];
        for (std::size_t j = 0; j < n; ++j) a[i][j] += held[i] || held[j] ? 0 : slopes[i][row] * slopes[j][row];
      }
    }
    Vector step = solved(a, b);
    bool changed = false;
    for (std::size_t i = 0; i < n; ++i) {
      const bool leaves = (at[i] <= unknowns[i].low && step[i] < 0) || (at[i] >= unknowns[i].high && step[i] > 0);
      if (leaves && !held[i]) held[i] = changed = true;
    }
    if (!changed) return step;
  }
}

}  // namespace

double Fit::worst() const {
  double worst = 0;
  for (const double error : errors) worst = std::max(worst, std::abs(error));
  return worst;
}

Fit least_errors(const std::function<Vector(const Vector&)>& f, const Vector& measured, const std::vector<Unknown>& unknowns) {
  Fit fit;
  for (const Unknown& unknown : unknowns) fit.values.push_back(unknown.start);
  fit.errors = errors_of(f(fit.values), measured);
  for (int round = 0; round < 20 && fit.worst() > 1e-7; ++round) {
    std::vector<Vector> slopes;
    for (std::size_t i = 0; i < unknowns.size(); ++i) {
      Vector moved = fit.values;
      double h = round == 0 ? unknowns[i].step : unknowns[i].step / 10;
      if (moved[i] + h > unknowns[i].high) h = -h;
      moved[i] += h;
      slopes.push_back(errors_of(f(moved), measured));
      for (std::size_t row = 0; row < measured.size(); ++row) slopes[i][row] = (slopes[i][row] - fit.errors[row]) / h;
    }
    const Vector step = newton_step(slopes, fit.errors, fit.values, unknowns);
    const double before = squares(fit.errors);
    double share = 1;
    for (; share > 0.01; share /= 2) {
      Vector next = fit.values;
      for (std::size_t i = 0; i < next.size(); ++i)
        next[i] = std::clamp(next[i] + share * step[i], unknowns[i].low, unknowns[i].high);
      const Vector errors = errors_of(f(next), measured);
      if (squares(errors) >= before) continue;
      fit.values = next, fit.errors = errors;
      break;
    }
    if (share <= 0.01 || squares(fit.errors) > before * (1 - 1e-6)) break;
  }
  return fit;
}

}  // namespace shardsim

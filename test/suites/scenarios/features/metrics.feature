Feature: Metrics

  Scenario Outline: <program> shows metrics to whom it may
    Then <program> shows its metrics to whom "<role>" is granted, and to nobody else

    Examples:
      | program             | role                               |
      | operator-controller | operator-controller-metrics-reader |
      | catalogd            | catalogd-metrics-reader            |

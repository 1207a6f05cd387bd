"""Names of scikit-learn that estimators use. Without scikit-learn the import raises ``Unavailable``."""

from __future__ import annotations

from tallystick.errors import Remedy, Unavailable

try:
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.base import ClassifierMixin as ClassifierMixin
    from sklearn.base import RegressorMixin as RegressorMixin
    from sklearn.base import clone as clone
    from sklearn.exceptions import DataConversionWarning as DataConversionWarning
    from sklearn.utils.validation import check_is_fitted as check_is_fitted
except ImportError:
    remedies = [Remedy("install", packages="'.[learn]'")]
    raise Unavailable("estimators need scikit-learn", remedies=remedies) from None
